package dev.mooncake4j.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Frees batches some time after all their tasks were seen to be done.
 *
 * <p>An engine that is built to notify its waiters counts a task as done first and goes on to use
 * the batch for a moment: to count the task in it, take its mutex and wake whoever waits. A batch
 * that is freed in that moment is written to after it was freed. On a machine of many processors
 * freeing at once, and again while the engine said that it was busy, ended the process within
 * seconds. Nothing tells when the moment is over, so a batch rests for two to three periods first,
 * which a thread of the engine would have to be kept from running for. Two waits of this thread,
 * and not a time alone: a process that was stopped for longer finds its threads where they were.
 *
 * <p>The thread is started with the first batch and ends with the engine. Thread-safe.
 */
final class RetiredBatches implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RetiredBatches.class);

  /** A batch rests for two of these at least. */
  static final long PERIOD_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** The same while the engine closes, which must not take long. */
  private static final long CLOSING_PERIOD_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /**
   * An engine that keeps a batch busy for longer while it closes gets it back only with its end.
   */
  private static final int CLOSING_PERIODS = 50;

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final String address;
  private List<Batch> fresh = new ArrayList<>();
  private @Nullable Thread thread;
  private boolean closing;

  RetiredBatches(String address) {
    this.address = address;
  }

  /** Takes over a batch whose tasks are all done. */
  void add(Batch batch) {
    lock.lock();
    try {
      fresh.add(batch);
      if (thread == null || !thread.isAlive()) {
        thread = start();
      }
      if (fresh.size() == 1) {
        changed.signal();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Where it cannot be started the next batch tries again: the write that brings it is over. */
  private @Nullable Thread start() {
    try {
      return Thread.ofPlatform().daemon().name("m4j-engine-free").start(this::run);
    } catch (Error e) {
      LOG.warn("engine={} batches={} are not freed yet: no thread", address, fresh.size(), e);
      return null;
    }
  }

  private void run() {
    List<Batch> rested = new ArrayList<>();
    List<Batch> resting = new ArrayList<>();
    int closingPeriods = 0;
    while (true) {
      List<Batch> next;
      lock.lock();
      try {
        while (fresh.isEmpty() && resting.isEmpty() && rested.isEmpty() && !closing) {
          changed.awaitUninterruptibly();
        }
        if (closing && fresh.isEmpty() && resting.isEmpty() && rested.isEmpty()) {
          return;
        }
        if (closing && ++closingPeriods > CLOSING_PERIODS) {
          LOG.warn("engine={} batches={} are busy and not freed", address, rested.size());
          return;
        }
        next = fresh;
        fresh = new ArrayList<>();
      } finally {
        lock.unlock();
      }
      rested.removeIf(Batch::free);
      rested.addAll(resting);
      resting = next;
      rest();
    }
  }

  private void rest() {
    lock.lock();
    try {
      boolean hurried = closing;
      long left = hurried ? CLOSING_PERIOD_NANOS : PERIOD_NANOS;
      while (left > 0) {
        left = changed.awaitNanos(left);
        if (closing && !hurried) {
          hurried = true;
          left = Math.min(left, CLOSING_PERIOD_NANOS);
        }
      }
    } catch (InterruptedException e) {
      // Nobody interrupts it for a reason: the next turn comes a little early.
      LOG.debug("engine={} the freeing thread was interrupted", address, e);
    } finally {
      lock.unlock();
    }
  }

  /** Frees all, of which none may be in flight, and ends the thread. */
  @Override
  public void close() {
    Thread running;
    lock.lock();
    try {
      closing = true;
      changed.signalAll();
      running = thread;
    } finally {
      lock.unlock();
    }
    boolean interrupted = false;
    while (running != null && running.isAlive()) {
      try {
        running.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
