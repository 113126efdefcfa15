package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.report.FailureLog;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.trace.Stage;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pulls that have not ended, and the one way in which each of them does: counted once, reported
 * once, and held back where a peer may still write into its blocks. Owned by the worker loop.
 */
final class Settlements {
  private static final Logger LOG = LoggerFactory.getLogger(Settlements.class);

  /**
   * How long the blocks of a failed pull are held where the prefiller gives no proof that it has
   * stopped writing, or is gone. vLLM was seen to write for 0.2 s after it had told the failure.
   */
  static final long QUARANTINE_NANOS = TimeUnit.SECONDS.toNanos(2);

  private final EventLoop loop;
  private final ResultQueue results;
  private final TransferListener listener;
  private final Ended ended;
  private final FailureLog log;

  /** All that has not ended. */
  private final Set<PullRecord> live = new LinkedHashSet<>();

  /** The latest of each request id; one given up before may still be live. */
  private final Map<String, PullRecord> byRequest = new HashMap<>();

  private final Map<String, PullRecord> byTransfer = new HashMap<>();
  private final Map<PullRecord, Deadline> settling = new LinkedHashMap<>();
  private boolean closed;

  /** Hears of each pull that has ended, whatever its end. */
  interface Ended {
    /** It is over: nothing of it is needed any more. */
    void ended(StepPlan.Pull pull);
  }

  Settlements(EventLoop loop, ResultQueue results, TransferListener listener, Ended ended) {
    this.loop = loop;
    this.results = results;
    this.listener = listener;
    this.ended = ended;
    this.log = new FailureLog(loop::now);
  }

  /** A pull has come, fit or not: it will end here. */
  void begin(PullRecord record) {
    live.add(record);
    if (!record.releasesOnly()) {
      byRequest.put(record.pull.requestId(), record);
    }
  }

  /** A pull is fit, and no other may have its transfer until it has ended. */
  void claim(PullRecord record) {
    byTransfer.put(record.pull.transferId(), record);
  }

  @Nullable PullRecord byRequest(String requestId) {
    return byRequest.get(requestId);
  }

  @Nullable PullRecord byTransfer(String transferId) {
    return byTransfer.get(transferId);
  }

  /** A rank has done what was asked, or was not asked. */
  void rankDone(PullRecord record) {
    if (record.answered()) {
      settled(record);
    }
  }

  /**
   * A rank has failed a request.
   *
   * @param quiet whether it is proven that nothing is written for it any more
   */
  void rankFailed(
      PullRecord record, FailureStage stage, String reason, String peer, boolean quiet) {
    record.fail(stage, reason, peer);
    if (!quiet && !record.releasesOnly()) {
      record.unquietUntil(loop.now() + QUARANTINE_NANOS);
    }
    rankDone(record);
  }

  /** Fails those of these for which no rank has been asked yet. */
  void failUnasked(
      Collection<PullRecord> records, FailureStage stage, String reason, @Nullable String peer) {
    for (PullRecord record : records) {
      if (record.state() == PullRecord.State.RESOLVING) {
        record.fail(stage, reason, peer);
        settleUnasked(record);
      }
    }
  }

  /** Nobody is asked for this one. */
  void settleUnasked(PullRecord record) {
    record.settleUnasked();
    settled(record);
  }

  private void settled(PullRecord record) {
    long wait = record.untilQuiet(loop.now());
    if (record.isFailed() && wait > 0 && !closed) {
      if (wait > QUARANTINE_NANOS) {
        reportUnquiet(record);
      }
      record.holdBack();
      settling.put(record, loop.schedule(wait, () -> end(record)));
    } else {
      end(record);
    }
  }

  /** The one place where a pull ends, and is forgotten. */
  private void end(PullRecord record) {
    record.ended();
    ended.ended(record.pull);
    settling.remove(record);
    live.remove(record);
    byRequest.remove(record.pull.requestId(), record);
    byTransfer.remove(record.pull.transferId(), record);
    if (record.releasesOnly()) {
      if (record.isFailed()) {
        LOG.debug(
            "transfer_id={} could not be released: {}", record.pull.transferId(), record.reason());
      }
      return;
    }
    if (!record.isFailed()) {
      results.received(record.pull.requestId());
      listener.receiveCompleted(loop.now() - record.since, record.pull.blocks().totalSize());
      return;
    }
    if (record.isReported()) {
      results.quieted(failure(record, true));
    } else {
      reportFailed(record, true);
    }
  }

  /** A failure that cannot wait for its blocks to be quiet: they are kept until they are. */
  void reportUnquiet(PullRecord record) {
    if (!record.releasesOnly() && record.report()) {
      reportFailed(record, false);
    }
  }

  private void reportFailed(PullRecord record, boolean quiet) {
    Failure failure = failure(record, quiet);
    log.failed(
        Stage.Side.DECODER,
        record.names,
        new FailureLog.Told(
            failure.stage(),
            failure.peer(),
            failure.blocks().totalSize(),
            quiet,
            null,
            failure.reason()));
    results.failed(failure);
    listener.receiveFailed(failure);
  }

  private static Failure failure(PullRecord record, boolean quiet) {
    return new Failure(
        record.pull.requestId(),
        record.pull.transferId(),
        record.stage(),
        record.reason(),
        record.peer(),
        record.pull.blocks(),
        quiet);
  }

  /** From now on nothing is held back. */
  void closing() {
    closed = true;
  }

  /** Ends what is held back, and fails what nobody was asked for yet. */
  void close(String reason) {
    settling.forEach((record, deadline) -> deadline.cancel());
    List.copyOf(settling.keySet()).forEach(this::end);
    failUnasked(List.copyOf(live), FailureStage.SHUTDOWN, reason, null);
  }

  /** Pulls that have not ended. */
  int size() {
    return live.size();
  }

  /** Pulls whose blocks are held back until they are quiet. */
  Set<PullRecord> heldBack() {
    return settling.keySet();
  }
}
