package dev.mooncake4j.core.results;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.StepResult.SendEnd;
import dev.mooncake4j.connector.StepResult.Sent;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Collects what a worker has to report until the server asks. Thread-safe.
 *
 * <p>The one place where a request leaves the connector.
 */
public final class ResultQueue {
  private static final Logger LOG = LoggerFactory.getLogger(ResultQueue.class);

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition some = lock.newCondition();
  private final Runnable ready;
  private List<Sent> sent = new ArrayList<>();
  private List<String> received = new ArrayList<>();
  private List<Failure> failed = new ArrayList<>();
  private List<Failure> quieted = new ArrayList<>();
  private boolean closed;

  /** A queue that calls {@code ready}, outside its lock, whenever something was added. */
  public ResultQueue(Runnable ready) {
    this.ready = ready;
  }

  /** Prefiller: a request's blocks may be freed. */
  public void sent(String requestId, String transferId, SendEnd end) {
    add(() -> sent.add(new Sent(requestId, transferId, end)));
  }

  /** Decoder: a request's blocks are all in place. */
  public void received(String requestId) {
    add(() -> received.add(requestId));
  }

  /** Decoder: a request's load failed. */
  public void failed(Failure failure) {
    add(() -> failed.add(failure));
  }

  /** Decoder: nobody writes any more into the blocks of a load that was reported as failed. */
  public void quieted(Failure failure) {
    LOG.info(
        "blocks are quiet request_id={} transfer_id={} blocks={}",
        failure.requestId(),
        failure.transferId(),
        failure.blocks().totalSize());
    add(() -> quieted.add(failure));
  }

  private void add(Runnable change) {
    lock.lock();
    try {
      change.run();
      some.signalAll();
    } finally {
      lock.unlock();
    }
    tell();
  }

  // Errors too: a class that the hook cannot load must not end the loop that calls it. Only what
  // says that the JVM itself is in trouble goes on.
  private void tell() {
    try {
      ready.run();
    } catch (VirtualMachineError e) {
      throw e;
    } catch (Throwable e) {
      LOG.error("the results_ready hook failed: results stay to be polled", e);
    }
  }

  /** All that was added since the last call. */
  public StepResult take() {
    lock.lock();
    try {
      return takeLocked();
    } finally {
      lock.unlock();
    }
  }

  /** Waits until something was added, the queue is closed, or the time has passed. */
  public StepResult await(long nanos) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      long left = nanos;
      while (isEmptyLocked() && !closed && left > 0) {
        left = some.awaitNanos(left);
      }
      return takeLocked();
    } finally {
      lock.unlock();
    }
  }

  /** Lets those that wait go; what was added can still be taken. */
  public void close() {
    lock.lock();
    try {
      closed = true;
      some.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private boolean isEmptyLocked() {
    return sent.isEmpty() && received.isEmpty() && failed.isEmpty() && quieted.isEmpty();
  }

  private StepResult takeLocked() {
    if (isEmptyLocked()) {
      return StepResult.empty();
    }
    StepResult result = new StepResult(sent, received, failed, quieted);
    sent = new ArrayList<>();
    received = new ArrayList<>();
    failed = new ArrayList<>();
    quieted = new ArrayList<>();
    return result;
  }
}
