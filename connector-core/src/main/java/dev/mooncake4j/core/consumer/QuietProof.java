package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What follows a pull that broke at one prefiller rank: its transfers are let go there, and the
 * requests wait for the word that nothing is written for them any more. Owned by the worker loop.
 *
 * <p>A broken connection says nothing of the prefiller behind it: a pull that waits there for its
 * prefill would be written when that ends, minutes later, into blocks that have long been given to
 * somebody else. So the release is what makes them safe:
 *
 * <ul>
 *   <li>answered: our prefillers answer when the last write is over, so the blocks are quiet now;
 *   <li>refused (a vLLM prefiller knows no releases, and lives): it may write until its own wait
 *       for the prefill is over, so the blocks are held for as long as the pull could have lasted;
 *   <li>nobody listens there: the process is gone, and the blocks are quiet after the margin;
 *   <li>out of reach: it may be stopped or cut off and come back, so it is asked again and again
 *       for as long as the pull could have lasted.
 * </ul>
 *
 * <p>The failure is not kept back for so long: after some seconds it is reported, as not quiet.
 */
final class QuietProof implements Exchange {
  /** After this the failure is reported, though its blocks are not known to be quiet. */
  static final long REPORT_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** Between two attempts to reach the prefiller. */
  private static final long AGAIN_NANOS = TimeUnit.SECONDS.toNanos(1);

  private static final Logger LOG = LoggerFactory.getLogger(QuietProof.class);

  private final Consumer consumer;
  private final String address;
  private final List<PullRecord> records;
  private final long pullDeadline;
  private final long begun;
  private @Nullable ChannelConnection connection;
  private @Nullable Deadline deadline;
  private @Nullable Deadline report;
  private @Nullable Deadline again;
  private boolean over;

  /**
   * For requests that have broken at one rank.
   *
   * @param pullDeadline when the pull would have failed of silence, on the loop's clock
   */
  QuietProof(Consumer consumer, String address, List<PullRecord> records, long pullDeadline) {
    this.consumer = consumer;
    this.address = address;
    this.records = records;
    this.pullDeadline = pullDeadline;
    this.begun = consumer.now();
  }

  void start() {
    long patience = Math.max(pullDeadline - begun, Consumer.ANSWER_MARGIN_NANOS);
    deadline = consumer.schedule(patience, this::timedOut);
    report =
        consumer.schedule(
            REPORT_NANOS, () -> records.forEach(consumer.settlements()::reportUnquiet));
    tell();
  }

  private void tell() {
    if (over) {
      return;
    }
    List<String> transferIds = new ArrayList<>(records.size());
    for (PullRecord record : records) {
      transferIds.add(record.pull.transferId());
    }
    try {
      connection = consumer.ask(address, WireCodec.encode(new ReleaseRequest(transferIds)), this);
    } catch (KvConnectorException e) {
      LOG.debug("transfer_ids={} are not released at addr={}", transferIds, address, e);
      tellAgain();
    }
  }

  private void tellAgain() {
    connection = null;
    again = consumer.schedule(AGAIN_NANOS, this::tell);
  }

  @Override
  public boolean onReply(byte[] payload) {
    boolean quiet;
    try {
      quiet = WireCodec.decodeResponse(payload).status() == PullResponse.Status.FINISH;
    } catch (MalformedMessageException e) {
      quiet = false;
    }
    settle(quiet ? 0 : Math.max(pullDeadline - consumer.now(), Settlements.QUARANTINE_NANOS));
    return true;
  }

  @Override
  public void onClosed(String reason, boolean wasConnected) {
    ChannelConnection ended = connection;
    if (ended != null && ended.wasRefused()) {
      settle(Settlements.QUARANTINE_NANOS);
    } else {
      tellAgain();
    }
  }

  private void timedOut() {
    ChannelConnection current = connection;
    if (current != null) {
      consumer.abandon(current);
    }
    settle(Settlements.QUARANTINE_NANOS);
  }

  /** The connector closes: no answer is waited for. */
  void giveUp() {
    settle(0);
  }

  private void settle(long unquietNanos) {
    if (over) {
      return;
    }
    over = true;
    cancel(deadline);
    cancel(report);
    cancel(again);
    consumer.quiet(this, unquietNanos);
  }

  private static void cancel(@Nullable Deadline deadline) {
    if (deadline != null) {
      deadline.cancel();
    }
  }

  List<PullRecord> records() {
    return records;
  }
}
