package dev.mooncake4j.engine;

import java.util.concurrent.locks.LockSupport;

/**
 * How a thread waits between two looks at its transfers.
 *
 * <p>A short spin catches transfers that take microseconds; after that it parks, because on a small
 * machine a spinning thread takes a core away from the engine. A park is a part of what has been
 * waited so far: a transfer is noticed late by some percent of its time, and a long one costs few
 * looks. With few processors the part is a thirty-second: each look costs the engine's own threads
 * some microseconds. With more it is a fourth of that, and less what the timer adds to every park,
 * so that a copy of some milliseconds is noticed within some 70 microseconds. One per thread.
 */
final class PollPause {
  /** Looks without a pause that gives the core away: some microseconds. */
  private static final int SPINS = 32;

  /** On so many, looks take time from the transfer itself. */
  static final int FEW_PROCESSORS = 4;

  /** By which Linux makes the parks of a usual thread longer than was asked for. */
  private static final long TIMER_SLACK_NANOS = 50_000;

  private static final long SHORTEST_NANOS = 20_000;
  private static final long LONGEST_NANOS = 500_000;

  private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

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
    LockSupport.parkNanos(nanos(System.nanoTime() - since, PROCESSORS));
  }

  /** Whether the next wait keeps the core. */
  boolean isSpinning() {
    return spins < SPINS;
  }

  /** How long to park after a wait of so long, on so many processors. */
  static long nanos(long waited, int processors) {
    long part = processors <= FEW_PROCESSORS ? waited >> 5 : (waited >> 7) - TIMER_SLACK_NANOS;
    return Math.clamp(part, SHORTEST_NANOS, LONGEST_NANOS);
  }
}
