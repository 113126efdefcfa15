package dev.mooncake4j.core.loop;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * A binary heap of deadlines, ordered by their moment, each of which knows its place: the earliest,
 * a move and a removal all cost O(log n), and a removed one is forgotten at once.
 *
 * <p>A move to a later moment, as of each of thousands of leases every few seconds, costs nothing
 * until the deadline would be the earliest by its former moment: only then it takes its new place.
 */
final class DeadlineQueue {
  private @Nullable Deadline[] heap = new @Nullable Deadline[16];
  private int size;

  Deadline add(long at, Runnable action) {
    Deadline deadline = new Deadline(this, action, at);
    if (size == heap.length) {
      heap = Arrays.copyOf(heap, size * 2);
    }
    place(deadline, size);
    size++;
    up(deadline);
    return deadline;
  }

  void remove(Deadline deadline) {
    int hole = deadline.index;
    if (hole < 0) {
      return;
    }
    deadline.index = -1;
    size--;
    Deadline last = at(size);
    heap[size] = null;
    if (last != deadline) {
      place(last, hole);
      up(last);
      down(last);
    }
  }

  void move(Deadline deadline, long at) {
    if (deadline.index < 0) {
      throw new IllegalStateException("deadline is not pending: schedule another");
    }
    deadline.at = at;
    if (at - deadline.key < 0) {
      deadline.key = at;
      up(deadline);
    }
  }

  /** The earliest, or {@code null}. */
  @Nullable Deadline first() {
    while (size > 0) {
      Deadline first = at(0);
      if (first.key == first.at) {
        return first;
      }
      first.key = first.at;
      down(first);
    }
    return null;
  }

  int size() {
    return size;
  }

  private void up(Deadline deadline) {
    int i = deadline.index;
    while (i > 0) {
      Deadline parent = at((i - 1) >>> 1);
      if (parent.key - deadline.key <= 0) {
        break;
      }
      int above = parent.index;
      place(parent, i);
      i = above;
    }
    place(deadline, i);
  }

  private void down(Deadline deadline) {
    int i = deadline.index;
    while (true) {
      int child = 2 * i + 1;
      if (child >= size) {
        break;
      }
      Deadline least = at(child);
      if (child + 1 < size && at(child + 1).key - least.key < 0) {
        least = at(child + 1);
      }
      if (deadline.key - least.key <= 0) {
        break;
      }
      int below = least.index;
      place(least, i);
      i = below;
    }
    place(deadline, i);
  }

  private void place(Deadline deadline, int i) {
    heap[i] = deadline;
    deadline.index = i;
  }

  private Deadline at(int i) {
    Deadline deadline = heap[i];
    if (deadline == null) {
      throw new AssertionError("heap has a hole at " + i);
    }
    return deadline;
  }
}
