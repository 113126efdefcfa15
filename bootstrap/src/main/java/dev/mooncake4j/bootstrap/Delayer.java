package dev.mooncake4j.bootstrap;

import java.time.Duration;

/**
 * Runs things later: behind every time-out and every pause of the client; tests drive their own.
 */
@FunctionalInterface
public interface Delayer {

  /**
   * Runs a task once, after a delay and on another thread. Returns at once; thread-safe. The task
   * does not block.
   *
   * @return calls the task off where it has not begun; may be run at any time, from any thread
   */
  Runnable after(Duration delay, Runnable task);
}
