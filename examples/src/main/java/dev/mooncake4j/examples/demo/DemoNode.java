package dev.mooncake4j.examples.demo;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.spi.TransferListener;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * One of the demo's two servers: takes requests as JSON lines on standard input, tells what happens
 * as JSON lines on standard output.
 *
 * <p>It has what any inference server has around the connector: a paged cache, a scheduler's step,
 * and requests that wait for remote KV without holding a thread.
 */
final class DemoNode {
  private final PrintStream out;
  private final DemoCache cache;
  private final KvConnector connector;
  private final KvScheduler scheduler;
  private final KvWorker worker;
  private final Map<String, Live> live = new HashMap<>();

  /** A request that the server knows, its blocks, and which block of the prompt is the first. */
  private record Live(KvRequest request, BlockIds ids, int firstBlock, long startNanos) {
    int[] blocks() {
      return ids.toArray(0);
    }
  }

  private DemoNode(PrintStream out, DemoCache cache, KvConnector connector) {
    this.out = out;
    this.cache = cache;
    this.connector = connector;
    this.scheduler = connector.scheduler();
    this.worker = connector.openWorker();
  }

  public static void main(String[] args) throws IOException {
    PrintStream out = System.out;
    try {
      run(KvRole.ofConfigName(args[0]), args[1], out);
    } catch (KvConnectorException e) {
      emit(out, Map.of("event", "fatal", "reason", String.valueOf(e.getMessage())));
      System.exit(1);
    }
    System.exit(0);
  }

  private static void run(KvRole role, String engineId, PrintStream out) throws IOException {
    RealKv kv = RealKv.load();
    try (Arena arena = Arena.ofShared()) {
      DemoCache cache = new DemoCache(kv, 512, arena, engineId.hashCode());
      ConnectorConfig config =
          ConnectorConfig.builder()
              .role(role)
              .engineId(engineId)
              .host("127.0.0.1")
              .bootstrapPort(0)
              .protocol("tcp")
              .abortRequestTimeout(Duration.ofSeconds(60))
              .build();
      ConnectorHooks hooks = ConnectorHooks.none().withListener(new Telling(out));
      try (KvConnector connector = KvConnector.open(config, hooks)) {
        DemoNode node = new DemoNode(out, cache, connector);
        node.worker.registerKvCaches(cache.layout());
        node.serve();
      }
    }
  }

  private void serve() throws IOException {
    Map<String, Object> ready = new LinkedHashMap<>();
    ready.put("event", "ready");
    ready.put("pid", ProcessHandle.current().pid());
    ready.put("engine_id", connector.config().engineId());
    ready.put("transport", worker.transport());
    ready.put("bootstrap", String.valueOf(connector.bootstrapAddress()));
    emit(out, ready);
    Thread reporter = Thread.ofVirtual().name("demo-results").start(this::report);
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode command = JsonMapper.shared().readTree(line);
      switch (command.get("cmd").asString()) {
        case "begin" -> begin(command);
        case "finish" -> finish(command.get("request_id").asString());
        case "quit" -> {
          reporter.interrupt();
          return;
        }
        default -> throw new IllegalArgumentException("unknown command: " + line);
      }
    }
    reporter.interrupt();
  }

  /** A request arrives, and is scheduled at once. */
  private synchronized void begin(JsonNode command) {
    int promptBlocks = command.get("blocks").asInt();
    int cachedBlocks = command.get("cached_blocks").asInt();
    int tokens = promptBlocks * RealKv.BLOCK_TOKENS;
    KvTransferParams params = params(command.get("kv_transfer_params"));
    KvRequest request = new KvRequest(command.get("request_id").asString(), tokens, params);
    scheduler.onRequestArrived(request);
    MatchedTokens remote = scheduler.matchedTokens(request, cachedBlocks * RealKv.BLOCK_TOKENS);
    int[] blocks = cache.allocate(promptBlocks - cachedBlocks);
    cache.poison(blocks);
    live.put(
        request.requestId(),
        new Live(request, BlockIds.of(blocks), cachedBlocks, System.nanoTime()));
    scheduler.onBlocksAllocated(request, BlockIds.of(blocks), remote.tokens());
    worker.startStep(scheduler.buildStep());
  }

  /** The prefill of a request has ended. */
  private synchronized void finish(String requestId) {
    Live request = live.get(requestId);
    if (request == null) {
      throw new IllegalArgumentException("unknown request_id=" + requestId);
    }
    cache.prefill(request.blocks());
    boolean keep =
        scheduler
            .onRequestFinished(request.request(), request.ids(), FinishReason.LENGTH)
            .keepBlocks();
    // Told first, so that it is never told after the copy.
    emit(out, Map.of("event", "prefilled", "request_id", requestId, "blocks_kept", keep));
    worker.startStep(scheduler.buildStep());
  }

  private void report() {
    try {
      while (true) {
        StepResult result = worker.await(Duration.ofSeconds(1));
        if (!result.isEmpty()) {
          report(result);
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private synchronized void report(StepResult result) {
    scheduler.onStepResult(result);
    for (StepResult.Sent sent : result.sent()) {
      Live request = live.remove(sent.requestId());
      if (request != null) {
        cache.release(request.blocks());
      }
      emit(
          out,
          Map.of(
              "event", "sent",
              "request_id", sent.requestId(),
              "end", sent.end().name(),
              "free_blocks", cache.freeBlocks()));
    }
    for (String requestId : result.received()) {
      Live request = live.remove(requestId);
      if (request != null) {
        long took = System.nanoTime() - request.startNanos();
        long wrong = cache.differences(request.blocks(), request.firstBlock());
        emit(
            out,
            Map.of(
                "event",
                "received",
                "request_id",
                requestId,
                "millis",
                took / 1e6,
                "blocks",
                request.blocks().length,
                "bytes",
                cache.bytes(request.blocks().length),
                "wrong_bytes",
                wrong));
        cache.release(request.blocks());
      }
    }
    for (Failure failure : result.failed()) {
      live.remove(failure.requestId());
      emit(
          out,
          Map.of(
              "event", "failed",
              "request_id", failure.requestId(),
              "stage", failure.stage().name(),
              "reason", failure.reason()));
    }
  }

  private static KvTransferParams params(JsonNode node) {
    Map<String, Object> map = new HashMap<>();
    for (String key : node.propertyNames()) {
      JsonNode value = node.get(key);
      map.put(key, value.isBoolean() ? value.asBoolean() : value.asString());
    }
    return KvTransferParams.fromMap(map);
  }

  private static void emit(PrintStream out, Map<String, ?> event) {
    String line = JsonMapper.shared().writeValueAsString(event);
    synchronized (out) {
      out.println(line);
      out.flush();
    }
  }

  /** Tells each copy as the prefiller's engine has made it. */
  private record Telling(PrintStream out) implements TransferListener {
    @Override
    public void transferCompleted(long durationNanos, long bytes, int descriptors) {
      emit(
          out,
          Map.of(
              "event",
              "copied",
              "millis",
              durationNanos / 1e6,
              "bytes",
              bytes,
              "descriptors",
              descriptors));
    }
  }
}
