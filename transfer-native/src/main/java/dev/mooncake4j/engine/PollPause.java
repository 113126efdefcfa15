package dev.mooncake4j.engine;

import java.util.concurrent.locks.LockSupport;

/**
 * How a thread waits between two looks at its transfers.
 *
 * <p>A short spin catches transfers that take microseconds; after that it parks, longer and longer,
 * because on a small machine a spinning thread takes a core away from the engine. One per thread.
 */
final class PollPause {
  /** Looks without a pause that gives the core away: some microseconds. */
  private static final int SPINS = 32;

  private static final long SHORTEST_NANOS = 20_000;
  private static final long LONGEST_NANOS = 200_000;

  private int spins;
  private long nanos = SHORTEST_NANOS;

  /** Something has moved: be quick again. */
  void reset() {
    spins = 0;
    nanos = SHORTEST_NANOS;
  }

  /** Waits a little; returns early when interrupted. */
  void pause() {
    if (spins < SPINS) {
      spins++;
      Thread.onSpinWait();
      return;
    }
    LockSupport.parkNanos(nanos);
    nanos = Math.min(LONGEST_NANOS, nanos + (nanos >> 2));
  }
}
