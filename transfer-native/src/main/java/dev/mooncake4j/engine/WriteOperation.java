package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.WriteResult;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/**
 * One write, on its caller's thread: windows of descriptors are submitted while the peer's limit
 * lets them, and looked at until all are done.
 *
 * <p>The first window waits its turn, behind other threads' windows; further ones are taken only
 * where nobody waits, so that a long list does not hold up a short one. A failure ends the
 * submitting; what is in flight is awaited all the same, because a failed write must be quiet. Once
 * the time has passed, what is in flight goes to the reaper.
 */
final class WriteOperation {
  /** Descriptors in one batch. */
  static final int WINDOW = 256;

  private final EngineCore core;
  private final BatchReaper reaper;
  private final Peer peer;
  private final DescriptorList list;
  private final RequestBuffers.Buffer buffer;
  private final int segment;
  private final long startNanos;
  private final long deadlineNanos;
  private final ArrayDeque<Batch> inFlight = new ArrayDeque<>(InFlightLimit.DESCRIPTORS / WINDOW);
  private final PollPause pause = new PollPause();

  private int submitted;
  private int written;
  private @Nullable String failure;
  private boolean interrupted;

  WriteOperation(
      EngineCore core,
      BatchReaper reaper,
      Peer peer,
      DescriptorList list,
      RequestBuffers.Buffer buffer,
      int segment,
      long startNanos,
      long deadlineNanos) {
    this.core = core;
    this.reaper = reaper;
    this.peer = peer;
    this.list = list;
    this.buffer = buffer;
    this.segment = segment;
    this.startNanos = startNanos;
    this.deadlineNanos = deadlineNanos;
  }

  /** Runs it to its end; an interrupt is kept for afterwards. */
  WriteResult run() {
    try {
      return transfer();
    } catch (RuntimeException | Error e) {
      if (inFlight.isEmpty()) {
        throw e;
      }
      // What is in flight still reads and writes memory: it is quiet when the reaper says so.
      return WriteResult.timedOut(
          "peer=" + peer.name + ": the writing thread ended with " + e, reaper.adopt(inFlight));
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private WriteResult transfer() {
    int size = list.size();
    while (true) {
      if (submitted < size && failure == null && !submitMore(size)) {
        return outOfTime();
      }
      if (inFlight.isEmpty()) {
        return failure == null ? WriteResult.completed() : WriteResult.failed(described());
      }
      if (pollOldest()) {
        pause.reset();
        continue;
      }
      if (isOver()) {
        return outOfTime();
      }
      pause.pause();
      // A thread that stays interrupted would not park any more.
      interrupted |= Thread.interrupted();
    }
  }

  /** Submits what there is room for; false if the time has passed with nothing in flight. */
  private boolean submitMore(int size) {
    while (submitted < size && failure == null) {
      int count = Math.min(WINDOW, size - submitted);
      if (isOver() || !takeRoom(count)) {
        return !inFlight.isEmpty();
      }
      if (core.isClosing()) {
        peer.limit.release(count);
        failure = "the engine is closing";
        return true;
      }
      buffer.fill(list, submitted, count, segment);
      Batch batch = Batch.submit(core, peer.limit, buffer.requests, submitted, count, false);
      if (batch == null) {
        peer.limit.release(count);
        failure = "allocateBatchID: " + core.library.explained();
        return true;
      }
      inFlight.add(batch);
      submitted += count;
      if (batch.hasFailed()) {
        noteFailure(batch);
      }
    }
    return true;
  }

  private boolean takeRoom(int count) {
    while (true) {
      try {
        return inFlight.isEmpty()
            ? peer.limit.acquire(count, deadlineNanos, core.clock)
            : peer.limit.tryAcquire(count);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
  }

  /** Whether the oldest batch has ended. */
  private boolean pollOldest() {
    Batch oldest = inFlight.getFirst();
    boolean ended = oldest.poll(buffer.status);
    if (oldest.hasFailed()) {
      noteFailure(oldest);
    }
    if (ended) {
      inFlight.removeFirst();
      if (!oldest.hasFailed()) {
        written += oldest.count();
      }
    }
    return ended;
  }

  private void noteFailure(Batch batch) {
    if (failure == null) {
      failure = batch.failureIn(list);
    }
  }

  private boolean isOver() {
    return core.clock.nanoTime() - deadlineNanos >= 0 || core.isClosingImpatiently();
  }

  private WriteResult outOfTime() {
    String reason = failure == null ? "" : "; before that " + failure;
    String message =
        "peer="
            + peer.name
            + " descriptors="
            + list.size()
            + " submitted="
            + submitted
            + " known_written="
            + written
            + ": not done after "
            + (core.clock.nanoTime() - startNanos) / 1_000_000
            + " ms"
            + (core.isClosing() ? ", the engine is closing" : "")
            + reason;
    return WriteResult.timedOut(message, reaper.adopt(inFlight));
  }

  private String described() {
    return "peer="
        + peer.name
        + " descriptors="
        + list.size()
        + " submitted="
        + submitted
        + " known_written="
        + written
        + ": "
        + failure;
  }
}
