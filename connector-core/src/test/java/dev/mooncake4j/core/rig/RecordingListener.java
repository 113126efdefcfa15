package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.spi.TransferListener;
import java.util.ArrayList;
import java.util.List;

/** Remembers what a connector has told its observer. */
public final class RecordingListener implements TransferListener {
  private final List<Long> completedBytes = new ArrayList<>();
  private final List<String> transferFailures = new ArrayList<>();
  private final List<Failure> receiveFailures = new ArrayList<>();
  private final List<String> expired = new ArrayList<>();
  private final List<Long> waits = new ArrayList<>();
  private final List<String> received = new ArrayList<>();
  private int renewals;

  /** Remembers nothing yet. */
  public RecordingListener() {}

  @Override
  public void transferCompleted(long durationNanos, long bytes, int descriptors) {
    completedBytes.add(bytes);
  }

  @Override
  public void transferFailed(int requests, String reason) {
    transferFailures.add(requests + ": " + reason);
  }

  @Override
  public void receiveFailed(Failure failure) {
    receiveFailures.add(failure);
  }

  @Override
  public void prefillWaited(long nanos) {
    waits.add(nanos);
  }

  @Override
  public void leasesRenewed(int count) {
    renewals += count;
  }

  @Override
  public void receiveCompleted(long durationNanos, int blocks) {
    received.add(blocks + " blocks in " + durationNanos);
  }

  @Override
  public void requestExpired(String transferId) {
    expired.add(transferId);
  }

  /** Bytes of each transfer written. */
  public List<Long> completedBytes() {
    return completedBytes;
  }

  /** Transfers that failed, as {@code requests: reason}. */
  public List<String> transferFailures() {
    return transferFailures;
  }

  /** Loads that failed. */
  public List<Failure> receiveFailures() {
    return receiveFailures;
  }

  /** How long each request waited for its prefill, in nanoseconds. */
  public List<Long> waits() {
    return waits;
  }

  /** Loads that went well, as {@code 3 blocks in nanoseconds}. */
  public List<String> received() {
    return received;
  }

  /** Leases renewed. */
  public int renewals() {
    return renewals;
  }

  /** Transfers that expired. */
  public List<String> expired() {
    return expired;
  }
}
