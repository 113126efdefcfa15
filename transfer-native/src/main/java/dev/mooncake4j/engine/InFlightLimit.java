package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.NanoClock;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * How many descriptors one peer is given at once, over all threads; first come, first served.
 *
 * <p>The engine's tcp transport takes 1024 queued and 1024 pending descriptors for a peer by
 * default, and past that the whole batch is rejected while parts of it go on, after which the two
 * processes may never move anything again. Up to 2048 never failed, so half of it leaves room for a
 * second engine in this process that writes to the same peer. Thread-safe.
 */
final class InFlightLimit {
  /** Descriptors in flight to one peer over tcp. */
  static final int DESCRIPTORS = 1024;

  /** Enough for every waiting thread, once nobody may wait any more. */
  private static final int OPENED = 1 << 24;

  /** For a transport that queues nothing, and so has no limit of its own. */
  static final int UNLIMITED = 1 << 28;

  private final int descriptors;
  private final Semaphore permits;

  InFlightLimit(int descriptors) {
    this.descriptors = descriptors;
    this.permits = new Semaphore(descriptors, true);
  }

  /**
   * Waits for room, behind those that came before.
   *
   * @return whether there was room before the deadline
   * @throws InterruptedException if interrupted; no room was taken
   */
  boolean acquire(int count, long deadlineNanos, NanoClock clock) throws InterruptedException {
    while (true) {
      long left = deadlineNanos - clock.nanoTime();
      if (permits.tryAcquire(count, Math.max(0, left), TimeUnit.NANOSECONDS)) {
        return true;
      }
      if (left <= 0) {
        return false;
      }
    }
  }

  /** Takes room if there is some and nobody waits for it. */
  boolean tryAcquire(int count) throws InterruptedException {
    return permits.tryAcquire(count, 0, TimeUnit.NANOSECONDS);
  }

  /** Gives room back. */
  void release(int count) {
    permits.release(count);
  }

  /** Lets everybody through who waits or comes: they are to see that the engine closes. */
  void open() {
    permits.release(OPENED);
  }

  /** Whether nothing is in flight. */
  boolean isIdle() {
    return permits.availablePermits() >= descriptors;
  }
}
