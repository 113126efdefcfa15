package dev.mooncake4j.connector.spi;

import dev.mooncake4j.connector.Failure;

/**
 * Observes a connector; every method does nothing by default.
 *
 * <p>Called on the connector's threads, outside its locks; must return at once. What it throws is
 * logged once and otherwise ignored: observing never fails a transfer.
 */
public interface TransferListener {
  /** Observes nothing. */
  TransferListener NONE = new TransferListener() {};

  /** A worker of this engine has started and can be observed. */
  default void workerOpened(String engineId) {}

  /** A worker of this engine has closed. */
  default void workerClosed(String engineId) {}

  /**
   * Prefiller: a transfer was written.
   *
   * @param durationNanos of the copy alone
   * @param bytes written
   * @param descriptors it took, after merging
   */
  default void transferCompleted(long durationNanos, long bytes, int descriptors) {}

  /** Prefiller: a transfer failed; {@code requests} requests with it. */
  default void transferFailed(int requests, String reason) {}

  /**
   * Prefiller: a pull of a decoder has met its prefill.
   *
   * @param nanos that it waited for it; 0 where the prefill had ended before
   */
  default void prefillWaited(long nanos) {}

  /** Prefiller: a decoder has renewed the leases of {@code count} transfers, at least one. */
  default void leasesRenewed(int count) {}

  /**
   * Decoder: a request's blocks are all in place.
   *
   * @param durationNanos from the pull's start to its end, the wait for the prefill included
   * @param blocks that were fetched
   */
  default void receiveCompleted(long durationNanos, int blocks) {}

  /** Decoder: a request's load failed. */
  default void receiveFailed(Failure failure) {}

  /** Prefiller: a request's blocks expired before anybody had fetched them. */
  default void requestExpired(String transferId) {}
}
