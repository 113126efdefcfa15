package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.WriteResult;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One write whose windows are submitted by several threads at a time, the caller's and those of
 * {@link SubmitLanes}: for transports that copy in the thread that submits.
 *
 * <p>A lane has one batch in flight: such a transport asks the thread's whole stream whether a copy
 * is done, so a second batch would hold up the first, and while one lane asks for its descriptors
 * the others' copies run. The rules are those of {@link WriteOperation}: a failure ends the
 * submitting, a failed write returns when all lanes are quiet, and once the time has passed what is
 * in flight goes to the reaper.
 */
final class ParallelWrite {
  private static final Logger LOG = LoggerFactory.getLogger(ParallelWrite.class);
  private static final long SPIN_NANOS = 2_000;
  private static final int SPINS_ALONE = 100;
  private static final int SPINS_AMONG_OTHERS = 2;
  private static final long PARK_NANOS = 20_000;

  private final EngineCore core;
  private final BatchReaper reaper;
  private final Peer peer;
  private final DescriptorList list;
  private final RequestBuffers buffers;
  private final SubmitLanes lanes;
  private final int segment;
  private final long startNanos;
  private final long deadlineNanos;
  private final int size;
  private final int window;
  private final int spins;

  // What follows is guarded by this object's monitor, taken once or twice for each window.
  private int next;
  private int active;
  private boolean over;
  private int submitted;
  private int written;
  private boolean late;
  private @Nullable String failure;
  private final List<Batch> leftInFlight = new ArrayList<>();

  ParallelWrite(
      EngineCore core,
      BatchReaper reaper,
      Peer peer,
      DescriptorList list,
      RequestBuffers buffers,
      SubmitLanes lanes,
      int segment,
      long startNanos,
      long deadlineNanos) {
    this.core = core;
    this.reaper = reaper;
    this.peer = peer;
    this.list = list;
    this.buffers = buffers;
    this.lanes = lanes;
    this.segment = segment;
    this.startNanos = startNanos;
    this.deadlineNanos = deadlineNanos;
    this.size = list.size();
    this.window = lanes.settings().windowFor(size);
    this.spins = size <= window ? SPINS_ALONE : SPINS_AMONG_OTHERS;
  }

  /** Runs it to its end; an interrupt is kept for afterwards. */
  WriteResult run() {
    int windows = Math.ceilDiv(size, window);
    try {
      lanes.help(Math.min(lanes.settings().lanes(), windows) - 1, this::join);
    } catch (RuntimeException | Error e) {
      // No thread could be started: those that were, and this one, do all the work.
      LOG.warn("engine={} a submitting thread is missing", core.address, e);
    }
    lane();
    boolean interrupted = awaitHelpers();
    try {
      return result();
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** A helper's part, if there is still something to do when it comes. */
  private void join() {
    synchronized (this) {
      if (over) {
        return;
      }
      active++;
    }
    try {
      lane();
    } finally {
      synchronized (this) {
        active--;
        notifyAll();
      }
    }
  }

  private boolean awaitHelpers() {
    boolean interrupted = Thread.interrupted();
    synchronized (this) {
      over = true;
      while (active > 0) {
        try {
          wait();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    }
    return interrupted;
  }

  private void lane() {
    try {
      RequestBuffers.Buffer buffer = buffers.take();
      try {
        lane(buffer);
      } finally {
        buffers.giveBack(buffer);
      }
    } catch (RuntimeException | Error e) {
      // What it had in flight is left to the reaper; the other lanes are awaited all the same.
      note("a submitting thread ended with " + e);
    }
  }

  private void lane(RequestBuffers.Buffer buffer) {
    boolean interrupted = false;
    try {
      for (int first = takeWindow(); first >= 0; first = takeWindow()) {
        int count = Math.min(window, size - first);
        Batch batch = submit(buffer, first, count);
        if (batch == null) {
          return;
        }
        interrupted |= await(batch, buffer);
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Index of the first descriptor of a window, or -1 if this lane is to end. */
  private synchronized int takeWindow() {
    if (next >= size || failure != null || late) {
      return -1;
    }
    int first = next;
    next = Math.min(size, first + window);
    return first;
  }

  private @Nullable Batch submit(RequestBuffers.Buffer buffer, int first, int count) {
    if (isOver() || !takeRoom(count)) {
      noteLate();
      return null;
    }
    if (core.isClosing()) {
      peer.limit.release(count);
      note("the engine is closing");
      return null;
    }
    buffer.fill(list, first, count, segment);
    Batch batch = Batch.submit(core, peer.limit, buffer.requests, first, count, true);
    if (batch == null) {
      peer.limit.release(count);
      note("allocateBatchID: " + core.library.explained());
      return null;
    }
    synchronized (this) {
      submitted += count;
      // Until it has ended it is among those that the reaper would take.
      leftInFlight.add(batch);
    }
    return batch;
  }

  private boolean takeRoom(int count) {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return peer.limit.acquire(count, deadlineNanos, core.clock);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Looks at a batch until it has ended or the time has passed; whether it was interrupted. */
  private boolean await(Batch batch, RequestBuffers.Buffer buffer) {
    boolean interrupted = false;
    int looks = 0;
    while (true) {
      boolean ended = batch.poll(buffer.status);
      if (batch.hasFailed()) {
        note(batch.failureIn(list));
      }
      if (ended) {
        synchronized (this) {
          leftInFlight.remove(batch);
          written += batch.hasFailed() ? 0 : batch.count();
        }
        return interrupted;
      }
      if (isOver()) {
        noteLate();
        return interrupted;
      }
      pause(looks++);
      // A thread that stays interrupted would not park any more.
      interrupted |= Thread.interrupted();
    }
  }

  /** Each look takes a lock of the device's driver that the other lanes submit under: not often. */
  private void pause(int looks) {
    if (looks < spins) {
      long end = System.nanoTime() + SPIN_NANOS;
      while (System.nanoTime() - end < 0) {
        Thread.onSpinWait();
      }
    } else {
      LockSupport.parkNanos(PARK_NANOS);
    }
  }

  private synchronized void note(String what) {
    if (failure == null) {
      failure = what;
    }
  }

  private synchronized void noteLate() {
    late = true;
  }

  private boolean isOver() {
    return core.clock.nanoTime() - deadlineNanos >= 0 || core.isClosingImpatiently();
  }

  private synchronized WriteResult result() {
    if (failure == null && !late && written == size) {
      return WriteResult.completed();
    }
    String message =
        "peer="
            + peer.name
            + " descriptors="
            + size
            + " submitted="
            + submitted
            + " known_written="
            + written
            + ": ";
    if (leftInFlight.isEmpty() && !late) {
      return WriteResult.failed(message + failure);
    }
    return WriteResult.timedOut(
        message
            + "not done after "
            + (core.clock.nanoTime() - startNanos) / 1_000_000
            + " ms"
            + (core.isClosing() ? ", the engine is closing" : "")
            + (failure == null ? "" : "; before that " + failure),
        reaper.adopt(leftInFlight));
  }
}
