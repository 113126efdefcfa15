package dev.mooncake4j.core.producer;

/**
 * The connection that some jobs are for. The worker loop counts its jobs and says when it has
 * ended; engine threads look before they begin one.
 */
final class Asker {
  /** Why a job was not begun. */
  static final String GONE = "the decoder's connection ended before its transfer began";

  private volatile boolean gone;
  private int jobs;

  /** A job is handed over. Called on the loop. */
  void begin() {
    jobs++;
  }

  /** A job is over; returns whether it was the last one. Called on the loop. */
  boolean end() {
    jobs--;
    return jobs == 0;
  }

  /** The connection has ended: the decoder's memory may be another process's from now on. */
  void leave() {
    gone = true;
  }

  /** Whether it has ended. */
  boolean isGone() {
    return gone;
  }
}
