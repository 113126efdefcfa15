package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.StepPlan.Progress;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.producer.SendRecord.State;
import dev.mooncake4j.core.producer.StreamedPull.Piece;
import dev.mooncake4j.core.producer.WaitingPulls.Waiting;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes what is finished of a prefill that goes on to the decoders that wait for it. Owned by the
 * worker loop.
 *
 * <p>For each request that waits at most two writes are under way at a time, so that the engine has
 * the next one to go on with while one ends; what is finished meanwhile makes the next. The decoder
 * hears of none: it is answered once, after the prefill. Each write pins the transfer's blocks as
 * any other. One that waits no more (its prefill has ended or was given up, it was let go, its time
 * or its connection is over) is dealt with when its write is over: no answer before that, since the
 * decoder takes an answer for a proof that nothing is written any more.
 *
 * <p>Where the decoder asks for a digest nothing is written early: the digest is one over all bytes
 * in the order of one write.
 */
final class EarlyWrites {
  private static final Logger LOG = LoggerFactory.getLogger(EarlyWrites.class);

  private final WaitingPulls waiting;
  private final PullWrites writes;
  private final Ends ends;

  /** By connection, those whose prefill has ended and whose rest waits for a write to be over. */
  private final Map<PeerIdentity, Set<Waiting>> restWaits = new HashMap<>();

  private boolean contradictionTold;

  /** Who is told of the end of writes. */
  interface Ends {
    /** A write of it is over, and with {@code ended} so is the transfer. */
    void earlyWriteOver(SendRecord send, boolean ended);

    /** An early write failed, and nothing is written of this request any more. */
    void earlyWriteFailed(Waiting waiter, SendRecord send, String reason);
  }

  EarlyWrites(WaitingPulls waiting, PullWrites writes, Ends ends) {
    this.waiting = waiting;
    this.writes = writes;
    this.ends = ends;
  }

  /** More of a transfer is finished: writes it to all that wait for it. */
  void advance(SendRecord send) {
    for (Waiting waiter : waiting.of(send.transferId)) {
      advance(waiter, send);
    }
  }

  /** Writes to one that waits what is finished, if that is worth a write and none is under way. */
  void advance(Waiting waiter, SendRecord send) {
    Progress progress = send.progress();
    if (progress == null
        || send.state() != State.ANNOUNCED
        || send.isReleasedWhenReady()
        || waiter.pull.plan == null
        || waiter.pull.request.digest()
        || waiter.entry.blocks().isEmpty()
        || !writes.isAttached()) {
      return;
    }
    StreamedPull known = waiter.streamed;
    StreamedPull streamed = known == null ? new StreamedPull(waiter.entry.blocks()) : known;
    waiter.streamed = streamed;
    Piece piece = streamed.next(progress);
    if (piece == null) {
      return;
    }
    send.beginWrite();
    streamed.beginWrite();
    writes.submit(
        waiter.pull,
        List.of(new TransferJob.Part(piece.local(), piece.remote(), send.names)),
        false,
        outcome -> over(waiter, send, streamed, outcome.failures().getFirst()));
  }

  private void over(
      Waiting waiter, SendRecord send, StreamedPull streamed, @Nullable String failure) {
    boolean ended = send.endWrite();
    boolean waits = !streamed.isLeft();
    streamed.endWrite(failure);
    if (waits && failure != null) {
      waiting.remove(waiter);
      whenQuiet(waiter, first -> ends.earlyWriteFailed(waiter, send, failure));
    } else if (waits) {
      advance(waiter, send);
    }
    ends.earlyWriteOver(send, ended);
  }

  /**
   * Does something with one that waits no more: at once, or when its write is over.
   *
   * @param action is given how that write failed, or {@code null}
   */
  void whenQuiet(Waiting waiter, Consumer<@Nullable String> action) {
    StreamedPull streamed = waiter.streamed;
    if (streamed != null && streamed.isWriting()) {
      streamed.afterwards(action);
    } else {
      action.accept(null);
    }
  }

  /** Whether a write to one that waits is under way. */
  boolean isWriting(Waiting waiter) {
    return waiter.streamed != null && waiter.streamed.isWriting();
  }

  /**
   * The same as {@link #whenQuiet} for one whose prefill has ended during a write, and which has
   * the rest to come: nothing is done where its connection ends before.
   */
  void thenTheRest(Waiting waiter, Consumer<@Nullable String> action) {
    PeerIdentity peer = waiter.pull.from;
    restWaits.computeIfAbsent(peer, p -> new HashSet<>()).add(waiter);
    whenQuiet(
        waiter,
        failure -> {
          Set<Waiting> ofPeer = restWaits.get(peer);
          if (ofPeer != null && ofPeer.remove(waiter)) {
            if (ofPeer.isEmpty()) {
              restWaits.remove(peer);
            }
            action.accept(failure);
          }
        });
  }

  /**
   * A connection has ended: to those on it no rest is written, since their memory may be another
   * process's by then. Returns how many there were.
   */
  int forgetRests(PeerIdentity peer) {
    Set<Waiting> forgotten = restWaits.remove(peer);
    return forgotten == null ? 0 : forgotten.size();
  }

  /** Whether what was told of a transfer's progress holds now that it is ready. */
  boolean fits(SendRecord send) {
    Progress told = send.progress();
    boolean fits = told == null || StreamedPull.fits(told, send.blocks());
    if (!fits && !contradictionTold) {
      contradictionTold = true;
      LOG.warn(
          "transfer_id={} request_id={} is ready with blocks={} that are not those of its progress,"
              + " finished={} of totals={}: all are written again; tell onPrefillProgress with 0"
              + " tokens when a prefill loses its blocks, and onRequestFinished all blocks of the"
              + " prompt (told once)",
          send.transferId,
          send.requestId,
          send.blocks(),
          told == null ? "none" : told.finished(),
          told == null ? "none" : told.totals());
    }
    return fits;
  }

  /** What is left to write for one that has waited, of a transfer that is ready now. */
  PullWrites.Pinned rest(Waiting waiter, SendRecord send, boolean fits) {
    StreamedPull streamed = waiter.streamed;
    Progress told = send.progress();
    if (streamed == null || told == null) {
      return PullWrites.Pinned.whole(waiter.entry, send);
    }
    Piece rest = streamed.rest(told, send.blocks(), fits);
    return new PullWrites.Pinned(waiter.entry, send, rest.local(), rest.remote());
  }
}
