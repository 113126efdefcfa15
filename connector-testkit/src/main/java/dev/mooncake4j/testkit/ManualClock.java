package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.spi.NanoClock;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

/** A clock that stands still until it is moved. Thread-safe. */
public final class ManualClock implements NanoClock {
  private final AtomicLong now;

  /** A clock that starts shortly before its value wraps, so that a wrong comparison shows. */
  public ManualClock() {
    this(Long.MAX_VALUE - Duration.ofSeconds(1).toNanos());
  }

  /** A clock that starts at a value of its own. */
  public ManualClock(long startNanos) {
    now = new AtomicLong(startNanos);
  }

  @Override
  public long nanoTime() {
    return now.get();
  }

  /**
   * Moves the clock on.
   *
   * @param step how far, at least 0
   * @throws IllegalArgumentException if the step is negative
   */
  public void advance(Duration step) {
    if (step.isNegative()) {
      throw new IllegalArgumentException("step=" + step + " is negative: a clock only moves on");
    }
    now.addAndGet(step.toNanos());
  }
}
