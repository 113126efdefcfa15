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
 *   <li>nobody there: the process is gone, and the blocks are quiet after the margin.
 * </ul>
 */
final class QuietProof implements Exchange {
  /**
   * A release whose connection breaks is sent again within this time. A prefiller that is stopped
   * takes longer to break one than this, and is not asked twice.
   */
  private static final long AGAIN_NANOS = TimeUnit.SECONDS.toNanos(5);

  private static final Logger LOG = LoggerFactory.getLogger(QuietProof.class);

  private final Consumer consumer;
  private final String address;
  private final List<PullRecord> records;
  private final long pullDeadline;
  private final long begun;
  private @Nullable ChannelConnection connection;
  private @Nullable Deadline deadline;
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
    tell();
  }

  private void tell() {
    List<String> transferIds = new ArrayList<>(records.size());
    for (PullRecord record : records) {
      transferIds.add(record.pull.transferId());
    }
    try {
      connection = consumer.ask(address, WireCodec.encode(new ReleaseRequest(transferIds)), this);
    } catch (KvConnectorException e) {
      LOG.debug("transfer_ids={} are not released at addr={}", transferIds, address, e);
      settle(Consumer.QUARANTINE_NANOS);
    }
  }

  @Override
  public boolean onReply(byte[] payload) {
    boolean quiet;
    try {
      quiet = WireCodec.decodeResponse(payload).status() == PullResponse.Status.FINISH;
    } catch (MalformedMessageException e) {
      quiet = false;
    }
    settle(quiet ? 0 : Math.max(pullDeadline - consumer.now(), Consumer.QUARANTINE_NANOS));
    return true;
  }

  @Override
  public void onClosed(String reason, boolean wasConnected) {
    if (wasConnected && consumer.now() - begun < AGAIN_NANOS) {
      tell();
    } else {
      settle(Consumer.QUARANTINE_NANOS);
    }
  }

  private void timedOut() {
    ChannelConnection current = connection;
    if (current != null) {
      consumer.abandon(current);
    }
    settle(Consumer.QUARANTINE_NANOS);
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
    if (deadline != null) {
      deadline.cancel();
    }
    consumer.quiet(this, unquietNanos);
  }

  List<PullRecord> records() {
    return records;
  }
}
