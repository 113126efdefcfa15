package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.trace.RequestStage;
import dev.mooncake4j.core.trace.Stage;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A decoder's knowledge of one pull, and the only place where its state changes.
 *
 * <pre>
 * RESOLVING ── ranks known ──▶ ASKED ── every rank has answered ──▶ SETTLING ── blocks quiet ──▶ ENDED
 *     └────────── no rank can be asked ─────────────────────────────▶┘
 * </pre>
 *
 * The first failure wins; an abort by the server wins over everything.
 */
final class PullRecord {
  enum State {
    /** The prefiller's ranks are being found out. */
    RESOLVING,
    /** Ranks were asked and have not all answered. */
    ASKED,
    /** All have answered; the blocks may still be written to. */
    SETTLING,
    /** Reported, or nothing to report. */
    ENDED
  }

  final StepPlan.Pull pull;

  /** When it came, on the loop's clock. */
  final long since;

  final RequestNames names;
  private State state = State.RESOLVING;
  private int unanswered;
  private @Nullable FailureStage stage;
  private String reason = "";
  private @Nullable String peer;
  private boolean aborted;
  private boolean reported;
  private long quietAt;
  private boolean unquiet;

  // Events, null where nobody records, or when they are over.
  private @Nullable RequestStage whole;
  private @Nullable RequestStage current;
  private @Nullable RequestStage heldBack;

  PullRecord(StepPlan.Pull pull, long since) {
    this.pull = pull;
    this.since = since;
    this.names = RequestNames.of(pull);
    if (!releasesOnly()) {
      whole = RequestStage.start(Stage.REQUEST, names, null, pull.blocks().totalSize());
    }
  }

  State state() {
    return state;
  }

  /** Whether it only releases, so that nothing is reported. */
  boolean releasesOnly() {
    return pull.blocks().isEmpty();
  }

  /** The prefiller's ranks are asked for. */
  void finding() {
    if (!releasesOnly()) {
      current = RequestStage.start(Stage.FIND, names, pull.remoteBootstrapAddr(), 0);
    }
  }

  /** The ranks at these addresses are asked for the blocks. */
  void fetching(List<String> addresses) {
    finishCurrent("found");
    if (!releasesOnly()) {
      current = RequestStage.start(Stage.FETCH, names, null, pull.blocks().totalSize());
      if (current != null) {
        current.peer(String.join(",", addresses));
      }
    }
  }

  /** It is held back from now on: a peer may still write to its blocks. */
  void holdBack() {
    finishCurrent("broken");
    if (heldBack == null) {
      heldBack = RequestStage.start(Stage.HELD_BACK, names, peer, pull.blocks().totalSize());
    }
  }

  private void finishCurrent(String outcome) {
    RequestStage.finish(current, outcome);
    current = null;
  }

  private void finishWhole() {
    if (whole != null) {
      whole.peer(peer);
      if (isFailed()) {
        RequestStage.finish(whole, aborted ? "aborted" : "failed", stage(), reason());
      } else {
        RequestStage.finish(whole, "received");
      }
      whole = null;
    }
  }

  void asked(int ranks) {
    require(state == State.RESOLVING && ranks > 0, "ask " + ranks + " ranks");
    state = State.ASKED;
    unanswered = ranks;
  }

  /** One rank has answered; returns whether it was the last. */
  boolean answered() {
    require(state == State.ASKED, "take an answer");
    unanswered--;
    if (unanswered == 0) {
      state = State.SETTLING;
      finishCurrent(isFailed() ? "failed" : "answered");
      return true;
    }
    return false;
  }

  /** No rank can be asked. */
  void settleUnasked() {
    require(state == State.RESOLVING, "settle unasked");
    state = State.SETTLING;
    finishCurrent("failed");
  }

  void ended() {
    require(state == State.SETTLING, "end");
    state = State.ENDED;
    RequestStage.finish(heldBack, "quiet");
    heldBack = null;
    finishWhole();
  }

  void fail(FailureStage failureStage, String failureReason, @Nullable String failurePeer) {
    if (stage == null) {
      stage = failureStage;
      reason = failureReason;
      peer = failurePeer;
    }
  }

  void abort() {
    aborted = true;
  }

  /** Its failure is reported before its blocks are quiet; returns whether it was not yet. */
  boolean report() {
    boolean first = !reported;
    reported = true;
    finishWhole();
    return first;
  }

  /** Whether its failure was reported before its blocks are quiet. */
  boolean isReported() {
    return reported;
  }

  boolean isAborted() {
    return aborted;
  }

  /** A peer may still write until this moment of the loop's clock. */
  void unquietUntil(long nanoTime) {
    if (!unquiet || nanoTime - quietAt > 0) {
      quietAt = nanoTime;
    }
    unquiet = true;
  }

  /** Nanoseconds until no peer writes any more, 0 or less if that is so now. */
  long untilQuiet(long now) {
    return unquiet ? quietAt - now : 0;
  }

  boolean isFailed() {
    return aborted || stage != null;
  }

  FailureStage stage() {
    if (aborted) {
      return FailureStage.ABORTED;
    }
    return stage == null ? FailureStage.RESPONSE : stage;
  }

  String reason() {
    if (!aborted) {
      return reason;
    }
    return stage == null ? "given up by the server" : "given up by the server; before: " + reason;
  }

  @Nullable String peer() {
    return peer;
  }

  private void require(boolean legal, String what) {
    if (!legal) {
      throw new IllegalStateException(
          "request_id=" + pull.requestId() + " state=" + state + ": cannot " + what);
    }
  }
}
