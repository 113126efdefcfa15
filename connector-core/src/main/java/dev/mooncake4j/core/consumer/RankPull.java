package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.WireCodec;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One pull request to one prefiller rank, the {@code index}-th of those asked, for several of our
 * requests, until each of them is answered. Owned by the worker loop.
 */
final class RankPull implements Exchange {
  private final Consumer consumer;
  final int index;
  final String engineId;
  final String bootstrapAddress;
  private final Map<String, PullRecord> open = new LinkedHashMap<>();
  private String address;
  private boolean mayAskAgain = true;
  private @Nullable ChannelConnection connection;
  private @Nullable Deadline deadline;
  private boolean layoutSent;
  private boolean anyReply;

  RankPull(
      Consumer consumer,
      int index,
      String address,
      String engineId,
      String bootstrapAddress,
      List<PullRecord> records) {
    this.consumer = consumer;
    this.index = index;
    this.address = address;
    this.engineId = engineId;
    this.bootstrapAddress = bootstrapAddress;
    for (PullRecord record : records) {
      open.put(record.pull.requestId(), record);
    }
  }

  /** Sends the question, with the layout if this rank is not known to have it. */
  void start(boolean withLayout) {
    layoutSent = withLayout;
    deadline = consumer.schedulePullDeadline(this::timedOut);
    connection = consumer.ask(this, consumer.encode(openRecords(), withLayout));
    if (connection == null) {
      failAll(FailureStage.SIDE_CHANNEL, "the side channel to the prefiller is full", false);
    }
  }

  /** Sends it once more, to where the rank is now. */
  void restartAt(String movedTo, boolean withLayout) {
    mayAskAgain = false;
    address = movedTo;
    if (!open.isEmpty()) {
      start(withLayout);
    }
  }

  boolean mayAskAgain() {
    return mayAskAgain;
  }

  String address() {
    return address;
  }

  List<PullRecord> openRecords() {
    return List.copyOf(open.values());
  }

  @Override
  public boolean onReply(byte[] payload) {
    PullResponse response;
    try {
      response = WireCodec.decodeResponse(payload);
    } catch (MalformedMessageException e) {
      failAll(
          FailureStage.RESPONSE, "the prefiller's answer is malformed: " + e.getMessage(), true);
      return true;
    }
    anyReply = true;
    return switch (response.status()) {
      case ERROR -> {
        // Told before anything is written, by ours and by vLLM's.
        failAll(FailureStage.PLAN, message(response), false);
        yield true;
      }
      case LAYOUT_MISS -> onLayoutMiss(response);
      case CONTINUE -> {
        settle(response);
        yield open.isEmpty() && finish();
      }
      case FINISH -> {
        settle(response);
        failAll(
            FailureStage.RESPONSE,
            "the prefiller finished without a word on this request: it has expired there",
            false);
        yield true;
      }
    };
  }

  private boolean onLayoutMiss(PullResponse response) {
    consumer.layoutLost(address);
    ChannelConnection current = connection;
    if (!layoutSent && current != null) {
      layoutSent = true;
      if (consumer.askAgain(current, consumer.encode(openRecords(), true))) {
        return false;
      }
    }
    failAll(
        FailureStage.PLAN, "the prefiller keeps no layout of ours: " + message(response), false);
    return true;
  }

  private void settle(PullResponse response) {
    if (layoutSent && response.layoutId() == consumer.layoutId() && consumer.layoutId() != 0) {
      consumer.layoutKept(address);
    }
    for (String requestId : response.errorRequests()) {
      PullRecord record = open.remove(requestId);
      if (record != null) {
        // An engine's failure is told by vLLM while parts of the write may be under way.
        consumer.rankFailed(
            record, stageOf(response), message(response), address, !response.quiet());
      }
    }
    for (String requestId : response.okRequests()) {
      PullRecord record = open.remove(requestId);
      if (record != null) {
        consumer.rankDone(record);
      }
    }
  }

  private static FailureStage stageOf(PullResponse response) {
    String message = String.valueOf(response.message());
    if (message.contains("transfer engine")) {
      return FailureStage.TRANSFER;
    }
    return message.contains("blocks") ? FailureStage.PLAN : FailureStage.PREFILL;
  }

  private static String message(PullResponse response) {
    String message = response.message();
    return message == null ? "the prefiller gave no reason" : message;
  }

  @Override
  public void onClosed(String reason, boolean wasConnected) {
    if (!wasConnected && !anyReply) {
      connection = null;
      if (deadline != null) {
        deadline.cancel();
      }
      consumer.unreachable(this, reason);
      return;
    }
    failAll(FailureStage.SIDE_CHANNEL, "the side channel to the prefiller broke: " + reason, true);
  }

  private void timedOut() {
    ChannelConnection current = connection;
    if (current != null) {
      consumer.abandon(current);
    }
    failAll(FailureStage.SIDE_CHANNEL, "the prefiller has not answered in time", true);
  }

  /** Fails what is still open. */
  void failAll(FailureStage stage, String reason, boolean mayStillWrite) {
    finish();
    List<PullRecord> left = new ArrayList<>(open.values());
    open.clear();
    for (PullRecord record : left) {
      consumer.rankFailed(record, stage, reason, address, mayStillWrite);
    }
  }

  private boolean finish() {
    if (deadline != null) {
      deadline.cancel();
    }
    consumer.finished(this);
    return true;
  }
}
