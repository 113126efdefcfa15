package dev.mooncake4j.examples.proxy;

import java.time.Duration;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.event.Level;

/**
 * What the log is told of one prefiller that is asked again and again: once that it cannot be used,
 * each minute that it still cannot, and once that it can again. One thread at a time.
 */
final class Outage {
  private static final Duration REMINDER = Duration.ofMinutes(1);

  private final LongSupplier nanoTime;
  private boolean out;
  private long began;
  private long told;

  /** A line for the log. */
  record Notice(Level level, String text) {}

  /** Of a prefiller of which nothing is known yet. */
  Outage(LongSupplier nanoTime) {
    this.nanoTime = nanoTime;
  }

  /**
   * It was asked again; returns what is to be told now.
   *
   * @param problem why it cannot be used, {@code null} if it can
   */
  @Nullable Notice asked(@Nullable String problem) {
    long now = nanoTime.getAsLong();
    if (problem == null) {
      boolean back = out;
      out = false;
      return back
          ? new Notice(Level.INFO, "can be used again after s=" + seconds(now - began))
          : null;
    }
    if (!out) {
      out = true;
      began = now;
      told = now;
      return new Notice(Level.WARN, "cannot be used: " + problem);
    }
    if (now - told < REMINDER.toNanos()) {
      return null;
    }
    told = now;
    return new Notice(
        Level.WARN, "cannot be used, for s=" + seconds(now - began) + " now: " + problem);
  }

  private static long seconds(long nanos) {
    return Duration.ofNanos(nanos).toSeconds();
  }
}
