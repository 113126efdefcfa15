package dev.mooncake4j.engine;

import java.util.concurrent.locks.LockSupport;

/**
 * How a thread waits between two looks at its transfers.
 *
 * <p>A short spin catches transfers that take microseconds; after that it parks, because on a small
 * machine a spinning thread takes a core away from the engine. A park is a thirty-second part of
 * what has been waited so far: a transfer is noticed late by some percent of its time, and a long
 * one costs few looks. One per thread.
 */
final class PollPause {
  /** Looks without a pause that gives the core away: some microseconds. */
  private static final int SPINS = 32;

  private static final long SHORTEST_NANOS = 20_000;
  private static final long LONGEST_NANOS = 500_000;

  private int spins;
  private long since;

  /** Something has moved: be quick again. */
  void reset() {
    spins = 0;
  }

  /** Waits a little; returns early when interrupted. */
  void pause() {
    if (spins == 0) {
      since = System.nanoTime();
    }
    if (isSpinning()) {
      spins++;
      Thread.onSpinWait();
      return;
    }
    LockSupport.parkNanos(nanos(System.nanoTime() - since));
  }

  /** Whether the next wait keeps the core. */
  boolean isSpinning() {
    return spins < SPINS;
  }

  /** How long to park after a wait of so long. */
  static long nanos(long waited) {
    return Math.clamp(waited >> 5, SHORTEST_NANOS, LONGEST_NANOS);
  }
}
