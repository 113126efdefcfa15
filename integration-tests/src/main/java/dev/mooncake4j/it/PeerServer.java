package dev.mooncake4j.it;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * What an inference server does with a connector, less the model: requests come from commands, each
 * command is a scheduler step, and blocks are those that the command names. One thread.
 */
final class PeerServer {
  private final EventWriter events;
  private final KvScheduler scheduler;
  private final KvWorker worker;
  private final int blockTokens;
  private final Map<String, Live> live = new HashMap<>();

  /** A pull as a command asks for it. */
  record PullCommand(
      String requestId,
      String transferId,
      String remoteEngineId,
      String remoteBootstrapAddr,
      BlockIds blocks,
      int cachedBlocks) {}

  private record Live(KvRequest request, BlockIds blocks, long startedAt) {}

  PeerServer(EventWriter events, KvConnector connector, KvWorker worker, int blockTokens) {
    this.events = events;
    this.scheduler = connector.scheduler();
    this.worker = worker;
    this.blockTokens = blockTokens;
  }

  /** Prefiller: the prefill begins. */
  void announce(String requestId, String transferId, int[] blocks) {
    KvRequest request =
        new KvRequest(
            requestId, blocks.length * blockTokens, KvTransferParams.forPrefiller(transferId));
    BlockIds ids = BlockIds.of(blocks);
    live.put(requestId, new Live(request, ids, System.nanoTime()));
    scheduler.onRequestArrived(request);
    MatchedTokens matched = scheduler.matchedTokens(request, 0);
    scheduler.onBlocksAllocated(request, ids, matched.tokens());
    step();
  }

  /** Prefiller: so many tokens of a prefill that has begun are computed. */
  void progress(String requestId, int finishedTokens) {
    Live prefill = live.get(requestId);
    if (prefill == null) {
      throw new IllegalArgumentException("request_id=" + requestId + " is not live");
    }
    scheduler.onPrefillProgress(prefill.request(), prefill.blocks(), finishedTokens);
    step();
  }

  /** The blocks of a request that is live. */
  BlockIds blocks(String requestId) {
    Live request = live.get(requestId);
    return request == null ? BlockIds.none() : request.blocks();
  }

  /** Either side: the server is done with a request. */
  FinishDecision finish(String requestId, FinishReason reason) {
    Live ended = live.get(requestId);
    if (ended == null) {
      throw new IllegalArgumentException("request_id=" + requestId + " is not live");
    }
    FinishDecision decision = scheduler.onRequestFinished(ended.request(), ended.blocks(), reason);
    step();
    if (!decision.keepBlocks()) {
      live.remove(requestId);
    }
    return decision;
  }

  /** Decoder: a request is queued; with leases its renewals begin. */
  void arrive(PullCommand command) {
    arrived(command);
    step();
  }

  private Live arrived(PullCommand command) {
    Live known = live.get(command.requestId());
    if (known != null) {
      return known;
    }
    int tokens = (command.cachedBlocks() + command.blocks().totalSize()) * blockTokens;
    KvRequest request =
        new KvRequest(
            command.requestId(),
            tokens,
            KvTransferParams.forDecoder(
                command.transferId(), command.remoteEngineId(), command.remoteBootstrapAddr()));
    Live arrived = new Live(request, command.blocks(), System.nanoTime());
    live.put(command.requestId(), arrived);
    scheduler.onRequestArrived(request);
    return arrived;
  }

  /** Decoder: blocks are allocated for these requests, which are fetched in one step. */
  void pull(List<PullCommand> commands) {
    List<String> pulled = new ArrayList<>();
    for (PullCommand command : commands) {
      Live request = arrived(command);
      MatchedTokens matched =
          scheduler.matchedTokens(request.request(), command.cachedBlocks() * blockTokens);
      boolean nothingToFill = command.blocks().isEmpty();
      if (matched.tokens() != command.blocks().totalSize() * blockTokens
          || matched.async() == nothingToFill) {
        live.remove(command.requestId());
        events.emit(
            "command_error",
            "error",
            "request_id=" + command.requestId() + " is not to be fetched: " + matched);
        continue;
      }
      scheduler.onBlocksAllocated(request.request(), request.blocks(), matched.tokens());
      if (nothingToFill) {
        // Nothing will be reported for it: only the prefiller's blocks are let go.
        finishQuietly(command.requestId(), FinishReason.LENGTH);
      } else {
        live.put(
            command.requestId(), new Live(request.request(), request.blocks(), System.nanoTime()));
      }
      pulled.add(command.requestId());
    }
    step();
    events.emit("pulling", "req_ids", pulled);
  }

  /** Decoder: a request ended before blocks were allocated for it. */
  void releaseUnscheduled(PullCommand command) {
    arrived(command);
    finishQuietly(command.requestId(), FinishReason.ABORTED);
    step();
    events.emit("released", "req_id", command.requestId());
  }

  private void finishQuietly(String requestId, FinishReason reason) {
    Live ended = live.remove(requestId);
    if (ended != null) {
      scheduler.onRequestFinished(ended.request(), ended.blocks(), reason);
    }
  }

  private void step() {
    StepPlan plan = scheduler.buildStep();
    if (!plan.isEmpty()) {
      worker.startStep(plan);
    }
  }

  /** What the worker has reported, at a moment. */
  void onResult(StepResult result, long at) {
    scheduler.onStepResult(result);
    for (StepResult.Sent sent : result.sent()) {
      events.emit(
          "finished_sending",
          "req_id",
          sent.requestId(),
          "transfer_id",
          sent.transferId(),
          "end",
          sent.end().name(),
          "seconds",
          seconds(live.remove(sent.requestId()), at));
    }
    if (!result.failed().isEmpty()) {
      events.emit("load_error_blocks", "block_ids", result.failedBlockIds());
    }
    for (Failure failure : result.failed()) {
      Double seconds = seconds(live.get(failure.requestId()), at);
      events.emit(
          "failed",
          "req_id",
          failure.requestId(),
          "transfer_id",
          failure.transferId(),
          "stage",
          failure.stage().name(),
          "reason",
          failure.reason(),
          "peer",
          failure.peer(),
          "blocks",
          failure.blocks().totalSize(),
          "quiet",
          failure.quiet(),
          "seconds",
          seconds);
      received(failure.requestId(), true, seconds, at);
      finishQuietly(failure.requestId(), FinishReason.ERROR);
    }
    for (Failure failure : result.quieted()) {
      events.emit("quieted", "req_id", failure.requestId());
    }
    for (String requestId : result.received()) {
      received(requestId, false, seconds(live.get(requestId), at), at);
      finishQuietly(requestId, FinishReason.LENGTH);
    }
    step();
  }

  private void received(String requestId, boolean loadError, @Nullable Double seconds, long at) {
    events.emit(
        "finished_recving",
        "req_id",
        requestId,
        "load_error",
        loadError,
        "seconds",
        seconds,
        "at_ns",
        at);
  }

  private static @Nullable Double seconds(@Nullable Live request, long at) {
    return request == null ? null : (at - request.startedAt()) / 1e9;
  }

  /** Ids of the requests that are not over. */
  Set<String> outstanding() {
    return new TreeSet<>(live.keySet());
  }
}
