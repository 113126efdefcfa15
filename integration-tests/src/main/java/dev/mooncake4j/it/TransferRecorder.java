package dev.mooncake4j.it;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.spi.TransferListener;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/** Keeps what a connector's observer is told, under the names of vLLM's statistics. Thread-safe. */
final class TransferRecorder implements TransferListener {

  /** One write of the engine. */
  record Write(boolean ok, double seconds, long bytes, int descriptors, String reason) {}

  private final ReentrantLock lock = new ReentrantLock();
  private final Consumer<Write> onWrite;
  private final List<Write> writes = new ArrayList<>();
  private int failedTransfers;
  private int failedReceives;
  private int expiredRequests;

  TransferRecorder(Consumer<Write> onWrite) {
    this.onWrite = onWrite;
  }

  @Override
  public void transferCompleted(long durationNanos, long bytes, int descriptors) {
    Write write = new Write(true, durationNanos / 1e9, bytes, descriptors, "");
    lock.lock();
    try {
      writes.add(write);
    } finally {
      lock.unlock();
    }
    onWrite.accept(write);
  }

  @Override
  public void transferFailed(int requests, String reason) {
    lock.lock();
    try {
      failedTransfers += requests;
    } finally {
      lock.unlock();
    }
    onWrite.accept(new Write(false, 0, 0, 0, reason));
  }

  @Override
  public void receiveFailed(Failure failure) {
    lock.lock();
    try {
      failedReceives++;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void requestExpired(String transferId) {
    lock.lock();
    try {
      expiredRequests++;
    } finally {
      lock.unlock();
    }
  }

  /** What has been recorded since the last call. */
  Map<String, Object> take() {
    lock.lock();
    try {
      Map<String, Object> data = new LinkedHashMap<>();
      data.put("transfer_duration", writes.stream().map(Write::seconds).toList());
      data.put("bytes_transferred", writes.stream().map(Write::bytes).toList());
      data.put("num_descriptors", writes.stream().map(Write::descriptors).toList());
      data.put("num_failed_transfers", failedTransfers);
      data.put("num_failed_recvs", failedReceives);
      data.put("num_kv_expired_reqs", expiredRequests);
      writes.clear();
      failedTransfers = 0;
      failedReceives = 0;
      expiredRequests = 0;
      return data;
    } finally {
      lock.unlock();
    }
  }
}
