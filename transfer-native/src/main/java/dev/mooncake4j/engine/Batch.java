package dev.mooncake4j.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.engine.ffi.TransferEngineC;
import dev.mooncake4j.engine.ffi.transfer_status;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * A native batch and its one owner: in flight until every task is done, and then let go.
 *
 * <p>A batch id is a pointer inside the engine: freed too early the engine writes to freed memory,
 * freed twice the process ends. So all tasks are asked to the end, also after one has failed; one
 * that the engine's threads have completed rests with {@link RetiredBatches} before it is freed.
 * Used by one thread at a time: its write's, then the reaper's or that of the retired.
 */
final class Batch {
  /** What {@code allocateBatchID} answers where it has none. */
  private static final long NO_BATCH = -1;

  private static final int NOTHING_FAILED = -1;
  private static final int STATE_IN_FLIGHT = 0;
  private static final int STATE_DONE = 1;
  private static final int STATE_FREED = 2;
  private static final long STATUS = transfer_status.status$offset();

  private final EngineCore core;
  private final InFlightLimit limit;
  private final long id;

  /** Index of its first descriptor in the write's list. */
  private final int first;

  private final int count;

  /** Whether a task is completed by whoever looks at it: no thread of the engine has the batch. */
  private final boolean completedByLooks;

  private boolean resting;
  private long restsUntil;
  private int state = STATE_IN_FLIGHT;
  private int next;
  private int failedTask = NOTHING_FAILED;
  private String failure = "";

  private Batch(
      EngineCore core,
      InFlightLimit limit,
      long id,
      int first,
      int count,
      boolean completedByLooks) {
    this.core = core;
    this.limit = limit;
    this.id = id;
    this.first = first;
    this.count = count;
    this.completedByLooks = completedByLooks;
  }

  /**
   * Submits requests; the room for them in the limit goes with the batch.
   *
   * @param completedByLooks whether the transport completes a task when it is looked at, on the
   *     looking thread
   * @return the batch, or {@code null} if the engine has none to give, and the room is the caller's
   */
  static @Nullable Batch submit(
      EngineCore core,
      InFlightLimit limit,
      MemorySegment requests,
      int first,
      int count,
      boolean completedByLooks) {
    long id = TransferEngineC.allocateBatchID(core.handle, count);
    if (id == NO_BATCH || id == 0) {
      return null;
    }
    Batch batch = new Batch(core, limit, id, first, count, completedByLooks);
    core.liveBatches.incrementAndGet();
    core.descriptorsInFlight.addAndGet(count);
    int code = TransferEngineC.submitTransfer(core.handle, id, requests, count);
    if (code != 0) {
      // Some of its tasks may be under way all the same: it is asked to the end like any other.
      batch.fail(0, "submitTransfer code=" + code + ": " + core.library.explained());
    }
    return batch;
  }

  private void fail(int task, String why) {
    if (failedTask == NOTHING_FAILED) {
      failedTask = task;
      failure = why;
    }
  }

  /** Whether some task has failed, as far as is known. */
  boolean hasFailed() {
    return failedTask != NOTHING_FAILED;
  }

  /** How it failed, and at which descriptor of the write's list first. */
  String failureIn(DescriptorList list) {
    return failure + ": " + described(list, first + failedTask);
  }

  /** One descriptor, as it stands in messages. */
  static String described(DescriptorList list, int i) {
    return "descriptor="
        + i
        + " source=0x"
        + Long.toHexString(list.source(i))
        + " destination=0x"
        + Long.toHexString(list.destination(i))
        + " length="
        + list.length(i);
  }

  /** Number of its descriptors. */
  int count() {
    return count;
  }

  /**
   * Looks at the tasks that are not known to be done, and lets the batch go when all are.
   *
   * @param status memory for one {@code transfer_status}
   * @return whether it is over: nothing of it is under way
   * @throws IllegalStateException if it was over before
   */
  boolean poll(MemorySegment status) {
    if (state != STATE_IN_FLIGHT) {
      throw new IllegalStateException("batch=" + Long.toHexString(id) + " is over");
    }
    MemorySegment engine = core.handle;
    int task = next;
    while (task < count) {
      int code = TransferEngineC.getTransferStatus(engine, id, task, status);
      if (code != 0) {
        // No such task: the engine did not take it, and nothing of it is under way.
        fail(task, "getTransferStatus code=" + code + ": " + core.library.explained());
      } else {
        int now = status.get(JAVA_INT, STATUS);
        if (now != TransferEngineC.STATUS_COMPLETED() && !ended(task, now)) {
          next = task;
          return false;
        }
      }
      task++;
    }
    next = count;
    if (hasFailed() || completedByLooks) {
      return freeNow();
    }
    state = STATE_DONE;
    over();
    core.retired.add(this);
    return true;
  }

  /** Of a failed one, that the engine lets it go is the proof that it is quiet. */
  private boolean freeNow() {
    if (!completedByLooks) {
      long now = System.nanoTime();
      if (!resting) {
        resting = true;
        restsUntil = now + RetiredBatches.PERIOD_NANOS;
      }
      if (now - restsUntil < 0) {
        return false;
      }
    }
    if (TransferEngineC.freeBatchID(core.handle, id) != 0) {
      // Busy after all, as after a timeout inside the engine: begin again.
      next = 0;
      resting = false;
      return false;
    }
    state = STATE_FREED;
    over();
    return true;
  }

  /** Whether it is over: it is not to be looked at any more. */
  boolean isOver() {
    return state != STATE_IN_FLIGHT;
  }

  private void over() {
    core.liveBatches.decrementAndGet();
    core.descriptorsInFlight.addAndGet(-count);
    limit.release(count);
  }

  /** Frees one whose tasks were all seen to be done; false if the engine is still busy with it. */
  boolean free() {
    if (state != STATE_DONE) {
      throw new IllegalStateException("batch=" + Long.toHexString(id) + " is not done, or freed");
    }
    if (TransferEngineC.freeBatchID(core.handle, id) != 0) {
      return false;
    }
    state = STATE_FREED;
    return true;
  }

  /** Whether a task that is not completed is over; remembers how. */
  private boolean ended(int task, int now) {
    if (now == TransferEngineC.STATUS_WAITING() || now == TransferEngineC.STATUS_PENDING()) {
      return false;
    }
    fail(task, "transfer state=" + nameOf(now));
    // After its own timeout the engine goes on with the task.
    return now != TransferEngineC.STATUS_TIMEOUT();
  }

  private static String nameOf(int state) {
    if (state == TransferEngineC.STATUS_FAILED()) {
      return "FAILED";
    }
    if (state == TransferEngineC.STATUS_TIMEOUT()) {
      return "TIMEOUT";
    }
    if (state == TransferEngineC.STATUS_CANCELED()) {
      return "CANCELED";
    }
    return state == TransferEngineC.STATUS_INVALID() ? "INVALID" : Integer.toString(state);
  }
}
