package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.integrity.Digests;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.trace.RequestStage;
import dev.mooncake4j.core.trace.Stage;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares what has arrived with the prefiller's digest of what it sent, before a rank counts as
 * done. Owned by the worker loop; the reading itself is done by the executor.
 */
final class IntegrityCheck {
  private static final Logger LOG = LoggerFactory.getLogger(IntegrityCheck.class);

  private final EventLoop loop;
  private final Settlements settlements;
  private final Executor reader;
  private final Set<Check> open = new LinkedHashSet<>();
  private final WarnedPeers warned = new WarnedPeers();

  private static final class Check {
    final PullRecord record;
    final String peer;
    final @Nullable RequestStage event;

    Check(PullRecord record, String peer) {
      this.record = record;
      this.peer = peer;
      this.event =
          RequestStage.start(Stage.CHECK, record.names, peer, record.pull.blocks().totalSize());
    }
  }

  IntegrityCheck(EventLoop loop, Settlements settlements, Executor reader) {
    this.loop = loop;
    this.settlements = settlements;
    this.reader = reader;
  }

  /** A rank says that a request's bytes are here; without a digest it is believed. */
  void arrived(PullRecord record, @Nullable TransferDigest digest, HostMemory memory, String peer) {
    if (digest == null) {
      warnOnce(peer);
      settlements.rankDone(record);
      return;
    }
    Check check = new Check(record, peer);
    open.add(check);
    reader.execute(
        () -> {
          String problem = compare(memory, digest);
          loop.post(() -> compared(check, problem));
        });
  }

  private static @Nullable String compare(HostMemory memory, TransferDigest digest) {
    try {
      return Digests.problemWith(memory, digest);
    } catch (RuntimeException e) {
      return "integrity_check: what arrived could not be read: " + e;
    }
  }

  private void compared(Check check, @Nullable String problem) {
    if (!open.remove(check)) {
      return;
    }
    RequestStage.finish(check.event, problem == null ? "equal" : "failed", null, problem);
    if (problem == null) {
      settlements.rankDone(check.record);
    } else {
      LOG.error("transfer_id={} {}", check.record.pull.transferId(), problem);
      settlements.rankFailed(check.record, FailureStage.INTEGRITY, problem, check.peer, true);
    }
  }

  private void warnOnce(String peer) {
    if (warned.isFirst(peer)) {
      LOG.warn(
          "prefiller at addr={} gives no digest: what it sends is not checked; vLLM's have none,"
              + " and none is taken of device memory or of a confined arena",
          peer);
    }
  }

  /** What is being read fails: nobody waits for the answer. */
  void close(String reason) {
    for (Check check : List.copyOf(open)) {
      open.remove(check);
      RequestStage.finish(check.event, "closed");
      settlements.rankFailed(check.record, FailureStage.SHUTDOWN, reason, check.peer, true);
    }
  }
}
