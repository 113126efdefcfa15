package dev.mooncake4j.examples.proxy;

import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Notices that a stream stands still: reading one has no deadline of its own.
 *
 * <p>Looks twice per time-out, so that progress costs no more than a write to a field.
 */
final class IdleWatch implements AutoCloseable {
  private static final ScheduledThreadPoolExecutor TIMER = timer();

  private final long timeoutNanos;
  private final Runnable onIdle;
  private final ScheduledFuture<?> task;
  private volatile long last = System.nanoTime();

  /** Watches from now on; {@code onIdle} must return at once. */
  IdleWatch(Duration timeout, Runnable onIdle) {
    this.timeoutNanos = timeout.toNanos();
    this.onIdle = onIdle;
    long period = Math.max(1, timeoutNanos / 2);
    this.task = TIMER.scheduleWithFixedDelay(this::look, period, period, TimeUnit.NANOSECONDS);
  }

  private static ScheduledThreadPoolExecutor timer() {
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(
            1, Thread.ofPlatform().name("proxy-idle-watch").daemon().factory());
    timer.setRemoveOnCancelPolicy(true);
    return timer;
  }

  /** Something moved. */
  void progress() {
    last = System.nanoTime();
  }

  private void look() {
    if (System.nanoTime() - last >= timeoutNanos) {
      onIdle.run();
    }
  }

  @Override
  public void close() {
    task.cancel(false);
  }
}
