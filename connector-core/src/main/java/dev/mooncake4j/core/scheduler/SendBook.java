package dev.mooncake4j.core.scheduler;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.TraceContext;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The prefiller's half of the bookkeeping: one entry for each request whose blocks a decoder will
 * fetch, from the first time it is seen until its blocks are the server's again.
 *
 * <pre>
 * state     | allocated | progress  | reported | finished with KV  | finished without
 * ----------+-----------+-----------+----------+-------------------+-----------------------
 * WAITING   | ANNOUNCED | ANNOUNCED |          | READY, kept       | cancelled; gone
 * ANNOUNCED |           |           | RELEASED | READY, kept       | cancelled; gone, or
 *           |           |           |          |                   | GIVEN_UP, kept
 * RELEASED  |           |           |          | cancelled; gone   | cancelled; gone
 * READY     |           |           | gone     | kept              | kept
 * GIVEN_UP  |           |           | gone     | kept              | kept
 * </pre>
 *
 * <p>An empty cell changes nothing. A prefill is kept after it was given up where progress of it
 * was handed over: its blocks may be being written.
 */
final class SendBook {
  private static final String LET_GO = "the transfer was let go before its prefill ended";

  private enum State {
    /** Seen, not begun. */
    WAITING,
    /** Its prefill has begun; a decoder's pull waits for it. */
    ANNOUNCED,
    /** Let go by the decoder or a router before the prefill ended. */
    RELEASED,
    /** Its blocks are kept until the workers report it. */
    READY,
    /** The same, of a prefill that was given up while blocks of it may be being written. */
    GIVEN_UP
  }

  private static final class Entry {
    final String requestId;
    final String transferId;
    final @Nullable TraceContext trace;
    State state = State.WAITING;
    @Nullable FinishedBlocks finished;
    int restarts;
    boolean progressHandedOver;

    Entry(String requestId, String transferId, @Nullable TraceContext trace) {
      this.requestId = requestId;
      this.transferId = transferId;
      this.trace = trace;
    }
  }

  private final Map<String, Entry> byRequest = new HashMap<>();
  private final Map<String, Entry> byTransfer = new HashMap<>();

  // For the next step, by transfer id.
  private final Map<String, StepPlan.Announcement> announcements = new LinkedHashMap<>();
  private final Map<String, StepPlan.Ready> ready = new LinkedHashMap<>();
  private final Map<String, StepPlan.CancelledSend> cancelled = new LinkedHashMap<>();
  private final Map<String, StepPlan.Progress> progress = new LinkedHashMap<>();

  /** Whether there is an entry for this request. */
  boolean knows(String requestId) {
    return byRequest.containsKey(requestId);
  }

  /** Whether there is an entry for this request and transfer that the server is not done with. */
  boolean isLive(String requestId, @Nullable String transferId) {
    Entry entry = find(requestId, transferId);
    return entry != null && !isKept(entry);
  }

  /** Whether the server is done with this request and its blocks are kept. */
  boolean isKept(String requestId, @Nullable String transferId) {
    Entry entry = find(requestId, transferId);
    return entry != null && isKept(entry);
  }

  private static boolean isKept(Entry entry) {
    return entry.state == State.READY || entry.state == State.GIVEN_UP;
  }

  /**
   * The request that sends a transfer, or whose cancellation the workers have not been told of yet;
   * {@code null} if there is none.
   */
  @Nullable String requestOf(String transferId) {
    Entry entry = byTransfer.get(transferId);
    if (entry != null) {
      return entry.requestId;
    }
    StepPlan.CancelledSend cancellation = cancelled.get(transferId);
    return cancellation == null ? null : cancellation.requestId();
  }

  /** Makes an entry; neither the request's id nor its transfer's may have one. */
  void open(String requestId, String transferId, @Nullable TraceContext trace) {
    Entry entry = new Entry(requestId, transferId, trace);
    byRequest.put(requestId, entry);
    byTransfer.put(transferId, entry);
  }

  /** Announces the transfer, the first time. */
  void allocated(String requestId) {
    announce(entry(requestId));
  }

  private void announce(Entry entry) {
    if (entry.state == State.WAITING) {
      entry.state = State.ANNOUNCED;
      announcements.put(
          entry.transferId,
          new StepPlan.Announcement(entry.requestId, entry.transferId, entry.trace));
    }
  }

  /** A prefill goes on, and this is finished of it; announced with it, if it was not yet. */
  void progressed(String requestId, FinishedBlocks finished) {
    Entry entry = entry(requestId);
    announce(entry);
    FinishedBlocks earlier = entry.finished;
    if (entry.state != State.ANNOUNCED
        || finished.equals(earlier)
        || (earlier == null && finished.isEmpty())) {
      return;
    }
    if (earlier != null && !finished.continues(earlier)) {
      entry.restarts++;
    }
    entry.finished = finished;
    progress.put(
        entry.transferId,
        new StepPlan.Progress(
            requestId, entry.transferId, entry.restarts, finished.blocks(), finished.totals()));
  }

  /**
   * The server is done with a live request.
   *
   * @param blocks those to send
   */
  FinishDecision finished(String requestId, BlockIds blocks, FinishReason reason) {
    Entry entry = entry(requestId);
    if (isKept(entry)) {
      return FinishDecision.KEEP;
    }
    if (!entry.progressHandedOver) {
      progress.remove(entry.transferId);
    }
    if (entry.state != State.RELEASED && reason.hasKv() && !blocks.isEmpty()) {
      announce(entry);
      ready.put(entry.transferId, new StepPlan.Ready(requestId, entry.transferId, blocks));
      entry.state = State.READY;
      return FinishDecision.KEEP;
    }
    progress.remove(entry.transferId);
    boolean kept = entry.progressHandedOver && entry.state == State.ANNOUNCED;
    cancel(requestId, entry.transferId, why(entry.state, reason), kept);
    if (kept) {
      entry.state = State.GIVEN_UP;
      return FinishDecision.KEEP;
    }
    forget(entry);
    return FinishDecision.FREE_NOW;
  }

  private static String why(State state, FinishReason reason) {
    if (state == State.RELEASED) {
      return LET_GO;
    }
    return switch (reason) {
      case ABORTED -> "the prefill was aborted";
      case ERROR -> "the prefill failed";
      case LENGTH, STOP -> "the prefill ended without blocks";
    };
  }

  /** Lets a decoder that waits for this transfer know that nothing will come. */
  void cancel(String requestId, String transferId, String reason) {
    cancel(requestId, transferId, reason, false);
  }

  private void cancel(String requestId, String transferId, String reason, boolean kept) {
    announcements.remove(transferId);
    cancelled.put(transferId, new StepPlan.CancelledSend(requestId, transferId, reason, kept));
  }

  /** The workers have reported a transfer. */
  void reported(String requestId, String transferId) {
    Entry entry = find(requestId, transferId);
    if (entry == null || announcements.containsKey(transferId)) {
      // Of an earlier request of the same ids: no worker knows this one yet.
      return;
    }
    if (entry.state == State.READY) {
      if (ready.remove(transferId) != null) {
        // Let go before the blocks were offered. The server frees them now: they must not be.
        cancel(requestId, transferId, LET_GO);
      }
      progress.remove(transferId);
      forget(entry);
    } else if (entry.state == State.GIVEN_UP) {
      StepPlan.CancelledSend untold = cancelled.get(transferId);
      if (untold != null) {
        // Named before they were asked to: the server frees the blocks now, they are not to name it
        // again.
        cancel(requestId, transferId, untold.reason());
      }
      forget(entry);
    } else if (entry.state == State.ANNOUNCED) {
      // The worker names each transfer once: with blocks kept from now on it would be forever.
      entry.state = State.RELEASED;
      progress.remove(transferId);
    }
  }

  List<StepPlan.Announcement> takeAnnouncements() {
    List<StepPlan.Announcement> taken = new ArrayList<>(announcements.values());
    announcements.clear();
    return taken;
  }

  List<StepPlan.Ready> takeReady() {
    List<StepPlan.Ready> taken = new ArrayList<>(ready.values());
    ready.clear();
    return taken;
  }

  List<StepPlan.CancelledSend> takeCancelled() {
    List<StepPlan.CancelledSend> taken = new ArrayList<>(cancelled.values());
    cancelled.clear();
    return taken;
  }

  List<StepPlan.Progress> takeProgress() {
    List<StepPlan.Progress> taken = new ArrayList<>(progress.values());
    progress.clear();
    for (StepPlan.Progress each : taken) {
      Entry entry = find(each.requestId(), each.transferId());
      if (entry != null) {
        entry.progressHandedOver = true;
      }
    }
    return taken;
  }

  /** Everything remembered; 0 when all requests have ended and the last step was taken. */
  int size() {
    return byRequest.size()
        + byTransfer.size()
        + announcements.size()
        + ready.size()
        + cancelled.size()
        + progress.size();
  }

  private void forget(Entry entry) {
    byRequest.remove(entry.requestId);
    byTransfer.remove(entry.transferId);
  }

  private @Nullable Entry find(String requestId, @Nullable String transferId) {
    Entry entry = byRequest.get(requestId);
    return entry != null && entry.transferId.equals(transferId) ? entry : null;
  }

  private Entry entry(String requestId) {
    Entry entry = byRequest.get(requestId);
    if (entry == null) {
      throw new IllegalStateException("request_id=" + requestId + " has no send");
    }
    return entry;
  }
}
