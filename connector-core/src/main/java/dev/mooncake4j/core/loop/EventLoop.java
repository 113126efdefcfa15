package dev.mooncake4j.core.loop;

import dev.mooncake4j.connector.spi.NanoClock;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Posted events and deadlines, run one at a time by whoever drives the loop.
 *
 * <p>{@link #post} may be called from any thread; everything else on the driving thread alone. An
 * event that throws is logged and counted and does not end the loop.
 */
public final class EventLoop {
  private static final Logger LOG = LoggerFactory.getLogger(EventLoop.class);

  private final ConcurrentLinkedQueue<Runnable> posted = new ConcurrentLinkedQueue<>();
  private final DeadlineQueue deadlines = new DeadlineQueue();
  private final NanoClock clock;
  private volatile Runnable wakeup = EventLoop::nothing;
  private long failedEvents;

  /** A loop on a clock. */
  public EventLoop(NanoClock clock) {
    this.clock = clock;
  }

  /** What brings the driving thread back from its wait; called from any thread. */
  public void onWakeup(Runnable action) {
    wakeup = action;
  }

  /** Has an event run on the loop, soon. Any thread. */
  public void post(Runnable event) {
    posted.add(event);
    wakeup.run();
  }

  /** The loop's clock. */
  public long now() {
    return clock.nanoTime();
  }

  /** Has an action run on the loop after a time; 0 or less means at the next turn. */
  public Deadline schedule(long delayNanos, Runnable action) {
    return deadlines.add(clock.nanoTime() + Math.max(0, delayNanos), action);
  }

  /** Runs all posted events and all deadlines that are due; returns how many ran. */
  public int runDue() {
    int ran = 0;
    for (Runnable event = posted.poll(); event != null; event = posted.poll()) {
      run(event);
      ran++;
    }
    long now = clock.nanoTime();
    for (Deadline first = deadlines.first();
        first != null && first.at - now <= 0;
        first = deadlines.first()) {
      deadlines.remove(first);
      run(first.action);
      ran++;
    }
    return ran;
  }

  /** Nanoseconds until the next deadline, at most {@code limit}; 0 if an event waits. */
  public long untilNext(long limit) {
    if (!posted.isEmpty()) {
      return 0;
    }
    Deadline first = deadlines.first();
    return first == null ? limit : Math.max(0, Math.min(limit, first.at - clock.nanoTime()));
  }

  /** Runs one event now, with the loop's care for what it throws. */
  public void run(Runnable event) {
    try {
      event.run();
    } catch (RuntimeException e) {
      failedEvents++;
      LOG.error("an event of the worker loop failed, failed_events={}: going on", failedEvents, e);
    }
  }

  /** Number of deadlines pending. */
  public int pendingDeadlines() {
    return deadlines.size();
  }

  /** Events that threw. */
  public long failedEvents() {
    return failedEvents;
  }

  /** The earliest pending moment, or {@code null}; for tests that drive the clock. */
  public @Nullable Long nextDeadline() {
    Deadline first = deadlines.first();
    return first == null ? null : first.at;
  }

  private static void nothing() {}
}
