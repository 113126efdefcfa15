package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult.SendEnd;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.trace.RequestStage;
import dev.mooncake4j.core.trace.Stage;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A prefiller's knowledge of one transfer, and the only place where its state changes.
 *
 * <pre>
 * ANNOUNCED ── ready ──▶ READY ── served, expired, released ──▶ ENDED
 *     │                    └── the same with writes under way ──▶ ENDING ── last write over ──▶ ENDED
 *     ├── cancelled, released ──▶ ENDED
 *     └── cancelled with early writes under way ──▶ ENDING
 * </pre>
 */
final class SendRecord {
  enum State {
    /** The prefill is under way. */
    ANNOUNCED,
    /** The blocks can be sent. */
    READY,
    /** Over, but a write still holds the blocks. */
    ENDING,
    /** Over. */
    ENDED
  }

  final RequestNames names;
  final String transferId;
  final String requestId;
  private final Set<String> served = new HashSet<>();
  private State state = State.ANNOUNCED;
  private BlockIds blocks = BlockIds.none();
  private StepPlan.@Nullable Progress progress;
  private @Nullable Deadline expiry;
  private @Nullable SendEnd end;
  private int writes;
  private @Nullable RequestStage current;
  private boolean releaseWhenReady;

  SendRecord(RequestNames names) {
    this.names = names;
    this.transferId = names.transferId();
    this.requestId = names.requestId();
    this.current = RequestStage.start(Stage.PREFILL, names);
  }

  State state() {
    return state;
  }

  BlockIds blocks() {
    return blocks;
  }

  /** What is finished of its prefill, as far as that was told. */
  StepPlan.@Nullable Progress progress() {
    return progress;
  }

  /** More is finished. */
  void progress(StepPlan.Progress told) {
    require(state == State.ANNOUNCED, "progress");
    progress = told;
  }

  /** Whether a write holds the blocks. */
  boolean isWritten() {
    return writes > 0;
  }

  @Nullable Deadline expiry() {
    return expiry;
  }

  /**
   * Why it is over, once {@link State#ENDING} or {@link State#ENDED}; {@code null} for cancelled.
   */
  @Nullable SendEnd end() {
    return end;
  }

  boolean isReleasedWhenReady() {
    return releaseWhenReady;
  }

  void releaseWhenReady() {
    require(state == State.ANNOUNCED, "release early");
    releaseWhenReady = true;
  }

  void ready(BlockIds allBlocks, Deadline whenExpired) {
    require(state == State.ANNOUNCED, "ready");
    state = State.READY;
    blocks = allBlocks;
    expiry = whenExpired;
    RequestStage.finish(current, "ready");
    current = RequestStage.start(Stage.HELD, names, null, allBlocks.totalSize());
  }

  /** Pins the blocks for one write; an early one begins before they are all ready. */
  void beginWrite() {
    require(state == State.READY || state == State.ANNOUNCED, "begin a write");
    writes++;
  }

  /** Unpins them; returns whether that was the last write of one that is ending. */
  boolean endWrite() {
    require(writes > 0, "end a write");
    writes--;
    if (state == State.ENDING && writes == 0) {
      ended();
      return true;
    }
    return false;
  }

  /**
   * A decoder rank, named by its session, has what it asked for; returns how many different have.
   */
  int served(String session) {
    served.add(session);
    return served.size();
  }

  /** Ends it; returns whether it is over now, {@code false} while a write holds the blocks. */
  boolean finish(@Nullable SendEnd why) {
    require(state == State.ANNOUNCED || state == State.READY, "finish");
    end = why;
    if (expiry != null) {
      expiry.cancel();
    }
    if (writes > 0) {
      if (state == State.ANNOUNCED && progress != null) {
        blocks = progress.finished();
      }
      state = State.ENDING;
      return false;
    }
    ended();
    return true;
  }

  /** The server gives its blocks to one that is ending: it is to be told of the end, as this. */
  void reportAs(SendEnd why) {
    require(state == State.ENDING, "report its end");
    if (end == null) {
      end = why;
    }
  }

  private void ended() {
    state = State.ENDED;
    RequestStage.finish(current, end == null ? "cancelled" : end.name().toLowerCase(Locale.ROOT));
    current = null;
  }

  private void require(boolean legal, String what) {
    if (!legal) {
      throw new IllegalStateException(
          "transfer_id="
              + transferId
              + " state="
              + state
              + " writes="
              + writes
              + ": cannot "
              + what);
    }
  }
}
