package dev.mooncake4j.it.stress;

import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;

/** Actions for later, run by whoever owns it. One thread. */
final class Timers {
  private record Timer(long at, long order, Runnable action) {}

  private final PriorityQueue<Timer> queue =
      new PriorityQueue<>(
          (a, b) -> {
            int byTime = Long.compare(a.at - b.at, 0);
            return byTime != 0 ? byTime : Long.compare(a.order, b.order);
          });
  private long next;

  /** Runs an action so many milliseconds from now. */
  void after(long millis, Runnable action) {
    queue.add(new Timer(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis), next++, action));
  }

  /** Nanoseconds until the next is due, at most as many as given. */
  long nanosToNext(long most) {
    Timer first = queue.peek();
    return first == null ? most : Math.clamp(first.at - System.nanoTime(), 0, most);
  }

  void runDue() {
    long now = System.nanoTime();
    for (Timer first = queue.peek(); first != null && first.at - now <= 0; first = queue.peek()) {
      queue.remove();
      first.action.run();
    }
  }
}
