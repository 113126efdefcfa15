package dev.mooncake4j.core.loop;

/** One pending moment of an {@link EventLoop}; to be cancelled or moved on the loop alone. */
public final class Deadline {
  final DeadlineQueue queue;
  final Runnable action;
  long at;

  /** What the queue has it ordered by: {@link #at}, or an earlier moment. */
  long key;

  int index = -1;

  Deadline(DeadlineQueue queue, Runnable action, long at) {
    this.queue = queue;
    this.action = action;
    this.at = at;
    this.key = at;
  }

  /** Takes it out; its action will not run. Idempotent, and harmless after it has run. */
  public void cancel() {
    queue.remove(this);
  }

  /** Moves it to another moment of the loop's clock; it must be pending. */
  public void moveTo(long nanoTime) {
    queue.move(this, nanoTime);
  }

  /** The moment, on the loop's clock. */
  public long at() {
    return at;
  }

  /** Whether it is still to come. */
  public boolean isPending() {
    return index >= 0;
  }
}
