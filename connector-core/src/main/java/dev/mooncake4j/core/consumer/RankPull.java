package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.WireCodec;
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
  private final LocalEngine engine;
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
      LocalEngine engine,
      List<PullRecord> records) {
    this.consumer = consumer;
    this.index = index;
    this.address = address;
    this.engineId = engineId;
    this.bootstrapAddress = bootstrapAddress;
    this.engine = engine;
    for (PullRecord record : records) {
      open.put(record.pull.requestId(), record);
    }
  }

  /** Sends the question, with the layout if this rank is not known to have it. */
  void start() {
    leaveOutFailed();
    if (open.isEmpty()) {
      finish();
      return;
    }
    layoutSent = !consumer.isLayoutKept(address, engine);
    if (deadline == null) {
      deadline = consumer.schedulePullDeadline(this::timedOut);
      consumer.watch().begin(this);
    }
    try {
      connection = consumer.ask(address, question(), this);
    } catch (KvConnectorException e) {
      connection = null;
      failAll(FailureStage.SIDE_CHANNEL, String.valueOf(e.getMessage()), false);
    }
  }

  /** What was given up, or has failed at another rank, before it was asked for here. */
  private void leaveOutFailed() {
    for (PullRecord record : openRecords()) {
      if (record.isFailed()) {
        open.remove(record.pull.requestId());
        consumer.settlements().rankDone(record);
      }
    }
  }

  private byte[] question() {
    return consumer.encode(engine, openRecords(), layoutSent);
  }

  /** Sends it once more, to where the rank is now; the time it has does not begin again. */
  void restartAt(String movedTo) {
    mayAskAgain = false;
    address = movedTo;
    start();
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
    } catch (MalformedMessageException | RuntimeException e) {
      // Whatever follows on this connection would be taken for the answer to the next question.
      abandonConnection();
      failAll(
          FailureStage.RESPONSE, "the prefiller's answer is malformed: " + e.getMessage(), true);
      return false;
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
        // Even if none is left: the FINISH that follows belongs to this question.
        settle(response);
        yield false;
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
      if (consumer.askAgain(current, question())) {
        return false;
      }
    }
    failAll(
        FailureStage.PLAN, "the prefiller keeps no layout of ours: " + message(response), false);
    return true;
  }

  private void settle(PullResponse response) {
    if (layoutSent && response.layoutId() == engine.layoutId()) {
      consumer.layoutKept(address, engine);
    }
    for (String requestId : response.errorRequests()) {
      PullRecord record = open.remove(requestId);
      if (record != null) {
        // An engine's failure is told by vLLM while parts of the write may be under way.
        consumer
            .settlements()
            .rankFailed(record, stageOf(response), message(response), address, response.quiet());
      }
    }
    for (String requestId : response.okRequests()) {
      PullRecord record = open.remove(requestId);
      if (record != null) {
        consumer.arrived(record, response.digests().get(requestId), engine.memory(), address);
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
    connection = null;
    if (!wasConnected && !anyReply) {
      consumer.unreachable(this, reason);
      return;
    }
    failAll(FailureStage.SIDE_CHANNEL, "the side channel to the prefiller broke: " + reason, true);
  }

  private void timedOut() {
    giveUp("the prefiller has not answered in time");
  }

  /** The prefiller was found to answer nothing. */
  void hangs(String reason) {
    giveUp(reason);
  }

  private void giveUp(String reason) {
    ChannelConnection current = connection;
    boolean reached = current != null && current.wasConnected();
    abandonConnection();
    failAll(FailureStage.SIDE_CHANNEL, reason, reached);
  }

  private void abandonConnection() {
    ChannelConnection current = connection;
    if (current != null) {
      connection = null;
      consumer.abandon(current);
    }
  }

  /** Fails what is still open. */
  void failAll(FailureStage stage, String reason, boolean mayStillWrite) {
    long pullDeadline = deadline == null ? consumer.now() : deadline.at();
    finish();
    List<PullRecord> left = openRecords();
    open.clear();
    if (mayStillWrite) {
      consumer.rankBroken(left, stage, reason, address, pullDeadline);
    } else {
      for (PullRecord record : left) {
        consumer.settlements().rankFailed(record, stage, reason, address, true);
      }
    }
    if (stage == FailureStage.SIDE_CHANNEL) {
      consumer.letGoElsewhere(left);
    }
  }

  private void finish() {
    if (deadline != null) {
      deadline.cancel();
    }
    consumer.watch().end(this);
    consumer.finished(this);
  }
}
