package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.producer.TransferJob.Outcome;
import dev.mooncake4j.core.report.FailureLog;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.trace.Stage;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.TransferDigest;
import dev.mooncake4j.core.wire.WireCodec;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hands writes to the engine threads, and tells decoders what came of their requests. Owned by the
 * worker loop.
 */
final class PullWrites {
  private static final Logger LOG = LoggerFactory.getLogger(PullWrites.class);

  static final String NO_CACHES = "the prefiller has no kv caches registered";

  private final EventLoop loop;
  private final BiConsumer<PeerIdentity, byte[]> replies;
  private final TransferListener listener;
  private final Tombstones tombstones;
  private final Ends ends;
  private final FailureLog log;

  /** Whose jobs are under way. */
  private final Map<PeerIdentity, Asker> askers = new HashMap<>();

  private @Nullable HostMemory memory;
  private @Nullable TransferRunner runner;

  /** Who is told what it means for a transfer. */
  interface Ends {
    /** A decoder rank has what it asked for. */
    void served(ServedPull pull, SendRecord send);

    /** The last write of a transfer that was ending is over. */
    void ended(SendRecord send);
  }

  /**
   * One request of a decoder, with its transfer and what is to be written: less than was asked for
   * where the rest was written before.
   */
  record Pinned(PullEntry entry, SendRecord send, BlockIds local, BlockIds remote) {
    /** All that is asked for, of a transfer that is ready. */
    static Pinned whole(PullEntry entry, SendRecord send) {
      return new Pinned(entry, send, send.blocks(), entry.blocks());
    }
  }

  PullWrites(
      EventLoop loop,
      BiConsumer<PeerIdentity, byte[]> replies,
      TransferListener listener,
      Tombstones tombstones,
      Ends ends) {
    this.loop = loop;
    this.replies = replies;
    this.listener = listener;
    this.tombstones = tombstones;
    this.ends = ends;
    this.log = new FailureLog(loop::now);
  }

  void attach(HostMemory readable, TransferRunner transfers) {
    memory = readable;
    runner = transfers;
  }

  void detach() {
    memory = null;
  }

  /** Whether the caches are registered. */
  boolean isAttached() {
    return memory != null;
  }

  /** Whether the caches ever were registered. */
  boolean wasAttached() {
    return runner != null;
  }

  /** Serves what is ready: releases at once, the rest as one job for an engine thread. */
  void write(ServedPull pull, List<Pinned> ready) {
    List<Pinned> toWrite = new ArrayList<>();
    List<TransferJob.Part> parts = new ArrayList<>();
    for (Pinned pinned : ready) {
      String requestId = pinned.entry().requestId();
      if (pinned.entry().blocks().isEmpty()) {
        pull.ok(requestId);
        ends.served(pull, pinned.send());
      } else if (pinned.send().state() != SendRecord.State.READY) {
        // Served to the last rank by an entry or a pull just before it.
        pull.failed(requestId, tombstones.past(pinned.send().transferId));
      } else if (!isAttached()) {
        // Given back while the pull waited: the memory may be anyone's.
        pull.failed(requestId, NO_CACHES);
      } else if (pinned.remote().isEmpty()) {
        // All was written while the prefill went on.
        pull.ok(requestId);
        ends.served(pull, pinned.send());
      } else {
        pinned.send().beginWrite();
        toWrite.add(pinned);
        parts.add(new TransferJob.Part(pinned.local(), pinned.remote(), pinned.send().names));
      }
    }
    if (!toWrite.isEmpty()) {
      submit(pull, parts, pull.request.digest(), outcome -> written(pull, toWrite, outcome));
    }
  }

  /**
   * Hands a write over; its outcome is told once, on the loop, when nothing is written any more.
   */
  void submit(
      ServedPull pull, List<TransferJob.Part> parts, boolean digested, Consumer<Outcome> done) {
    PeerPlan plan = pull.plan;
    TransferRunner transfers = runner;
    if (plan == null || transfers == null) {
      throw new IllegalStateException("blocks are asked for in a pull that was not planned");
    }
    Asker asker = askers.computeIfAbsent(pull.from, p -> new Asker());
    asker.begin();
    Consumer<Outcome> told =
        outcome -> {
          if (asker.end()) {
            askers.remove(pull.from, asker);
          }
          over(outcome, done);
        };
    try {
      transfers.submit(
          new TransferJob(
              pull.session,
              pull.request.layoutId(),
              plan,
              List.copyOf(parts),
              digested ? memory : null,
              asker),
          outcome -> loop.post(() -> told.accept(outcome)));
    } catch (RuntimeException e) {
      // Unpinned again and told by request: an error for the whole pull would leave others out.
      LOG.error("a transfer to peer={} could not be started", pull.session, e);
      List<@Nullable String> reasons =
          Collections.nCopies(parts.size(), "the prefiller could not start the transfer: " + e);
      told.accept(new Outcome(reasons, false, 0, 0, 0));
    }
  }

  /** A decoder's connection has ended: what no engine thread has begun for it is not written. */
  void requesterGone(PeerIdentity peer) {
    Asker asker = askers.remove(peer);
    if (asker != null) {
      asker.leave();
    }
  }

  private void over(Outcome outcome, Consumer<Outcome> done) {
    if (outcome.descriptors() > 0 && !outcome.engineFailed()) {
      listener.transferCompleted(outcome.durationNanos(), outcome.bytes(), outcome.descriptors());
    }
    int failures = 0;
    String lastFailure = "";
    for (String failure : outcome.failures()) {
      if (failure != null) {
        failures++;
        lastFailure = failure;
      }
    }
    if (failures > 0) {
      listener.transferFailed(failures, lastFailure);
    }
    done.accept(outcome);
  }

  private void written(ServedPull pull, List<Pinned> written, Outcome outcome) {
    for (int i = 0; i < written.size(); i++) {
      Pinned pinned = written.get(i);
      String failure = outcome.failures().get(i);
      boolean over = pinned.send().endWrite();
      if (failure != null) {
        failed(pull, pinned.entry(), pinned.send(), failure);
      } else {
        String requestId = pinned.entry().requestId();
        pull.ok(requestId);
        TransferDigest digest = outcome.digests().isEmpty() ? null : outcome.digests().get(i);
        if (digest != null) {
          pull.digest(requestId, digest);
        }
        if (!over) {
          ends.served(pull, pinned.send());
        }
      }
      if (over) {
        ends.ended(pinned.send());
      }
    }
    answer(pull);
  }

  /** A write failed: the request is told so by the next answer, and a line of the log. */
  void failed(ServedPull pull, PullEntry entry, SendRecord send, String failure) {
    failed(pull, entry, send, stageOf(failure), failure);
  }

  /** The same, at another stage than a write. */
  void failed(
      ServedPull pull,
      PullEntry entry,
      @Nullable SendRecord send,
      FailureStage stage,
      String reason) {
    pull.failed(entry.requestId(), reason);
    log.failed(
        Stage.Side.PREFILLER,
        send == null ? new RequestNames("", entry.transferId(), null) : send.names,
        new FailureLog.Told(
            stage, pull.session, entry.blocks().totalSize(), null, entry.requestId(), reason));
  }

  private static FailureStage stageOf(String failure) {
    if (failure.startsWith("transfer engine")) {
      return FailureStage.TRANSFER;
    }
    if (failure.equals(Asker.GONE)) {
      return FailureStage.SIDE_CHANNEL;
    }
    return failure.contains("closing") ? FailureStage.SHUTDOWN : FailureStage.PLAN;
  }

  /** Tells a decoder what was settled since its last answer, if anything was. */
  void answer(ServedPull pull) {
    ServedPull.Answer answer = pull.takeAnswer();
    if (answer == null) {
      return;
    }
    long layoutId = pull.request.layoutId();
    PullResponse response =
        answer.last()
            ? PullResponse.finished(answer.ok(), answer.failed(), answer.message(), layoutId)
            : PullResponse.partial(answer.ok(), answer.failed(), answer.message(), layoutId);
    reply(
        pull.from, answer.digests().isEmpty() ? response : response.withDigests(answer.digests()));
  }

  void reply(PeerIdentity to, PullResponse response) {
    replies.accept(to, WireCodec.encode(response));
  }
}
