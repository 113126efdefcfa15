package dev.mooncake4j.examples.proxy;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import tools.jackson.core.type.TypeReference;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A completion server with the real connector behind it, and a model that is easy to check: every
 * byte of a prompt's KV is the prompt's first letter, and what a decoder says is what it finds.
 */
final class ToyServer implements AutoCloseable {
  static final int BLOCK_BYTES = 4096;
  static final int BLOCKS = 8;
  private static final int TOKENS = 64;
  private static final List<String> LAYERS = List.of("model.layers.0", "model.layers.1");
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final Arena arena = Arena.ofShared();
  private final MemorySegment cache =
      arena.allocate((long) LAYERS.size() * BLOCKS * BLOCK_BYTES, 4096);
  private final KvConnector connector;
  private final KvWorker worker;
  private final HttpServer http;
  private final int[] blocks;

  /** Ends of sends, as the connector tells them. */
  final Queue<String> sent = new ConcurrentLinkedQueue<>();

  /** Failures of pulls. */
  final Queue<String> failed = new ConcurrentLinkedQueue<>();

  ToyServer(KvRole role, int... blocks) throws IOException {
    this.blocks = blocks;
    connector =
        KvConnector.open(
            ConnectorConfig.builder()
                .role(role)
                .engineId(role.isProducer() ? "toy-prefiller" : "toy-decoder")
                .host("127.0.0.1")
                .bootstrapPort(0)
                .protocol("tcp")
                .build());
    worker = connector.openWorker();
    worker.registerKvCaches(
        KvCacheLayout.layersInOne(KvMemory.host(cache), LAYERS, BLOCK_BYTES, BLOCKS));
    http = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    http.createContext("/v1/", role.isProducer() ? this::prefill : this::decode);
    http.start();
  }

  URI url() {
    return URI.create("http://127.0.0.1:" + http.getAddress().getPort());
  }

  URI bootstrap() {
    return URI.create(String.valueOf(connector.bootstrapAddress()));
  }

  private static KvRequest request(HttpExchange exchange, JsonNode body) {
    Map<String, Object> params =
        JsonMapper.shared()
            .convertValue(
                body.get("kv_transfer_params"), new TypeReference<Map<String, Object>>() {});
    return new KvRequest(
        exchange.getRequestHeaders().getFirst("X-Request-Id"),
        TOKENS,
        KvTransferParams.fromMap(params));
  }

  private void prefill(HttpExchange exchange) throws IOException {
    JsonNode body = JsonMapper.shared().readTree(exchange.getRequestBody());
    KvRequest request = request(exchange, body);
    connector.scheduler().onRequestArrived(request);
    connector.scheduler().onBlocksAllocated(request, BlockIds.none(), 0);
    step();
    char letter = body.get("prompt").asString().charAt(0);
    for (int layer = 0; layer < LAYERS.size(); layer++) {
      for (int block : blocks) {
        block(layer, block).fill((byte) letter);
      }
    }
    BlockIds ids = BlockIds.of(blocks);
    connector.scheduler().onRequestFinished(request, ids, FinishReason.LENGTH);
    step();
    respond(exchange, "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}");
    // One request at a time: its blocks are those of the next.
    StepResult result = await();
    result.sent().forEach(s -> sent.add(s.requestId() + "=" + s.end()));
  }

  private void decode(HttpExchange exchange) throws IOException {
    JsonNode body = JsonMapper.shared().readTree(exchange.getRequestBody());
    KvRequest request = request(exchange, body);
    cache.fill((byte) '?');
    connector.scheduler().onRequestArrived(request);
    MatchedTokens remote = connector.scheduler().matchedTokens(request, 0);
    connector.scheduler().onBlocksAllocated(request, BlockIds.of(blocks), remote.tokens());
    step();
    StepResult result = await();
    result.failed().forEach(f -> failed.add(f.stage() + ": " + f.reason()));
    connector.scheduler().onRequestFinished(request, BlockIds.of(blocks), FinishReason.LENGTH);
    step();
    String text = result.received().contains(request.requestId()) ? found() : "not received";
    if (body.path("stream").asBoolean(false)) {
      exchange.getResponseHeaders().set("Content-Type", "text/event-stream");
      exchange.sendResponseHeaders(200, 0);
      try (OutputStream out = exchange.getResponseBody()) {
        out.write(("data: {\"text\":\"" + text + "\"}\n\n").getBytes(StandardCharsets.UTF_8));
        out.write("data: [DONE]\n\n".getBytes(StandardCharsets.UTF_8));
      }
    } else {
      respond(exchange, "{\"choices\":[{\"text\":\"" + text + "\"}]}");
    }
  }

  /** The letter that all blocks of the request are full of, with how many bytes it was found in. */
  private String found() {
    byte first = block(0, blocks[0]).get(ValueLayout.JAVA_BYTE, 0);
    long same = 0;
    long others = 0;
    for (int layer = 0; layer < LAYERS.size(); layer++) {
      for (int block = 0; block < BLOCKS; block++) {
        MemorySegment bytes = block(layer, block);
        for (long i = 0; i < BLOCK_BYTES; i++) {
          byte b = bytes.get(ValueLayout.JAVA_BYTE, i);
          same += b == first ? 1 : 0;
          others += b != first && b != (byte) '?' ? 1 : 0;
        }
      }
    }
    return (char) first + " bytes=" + same + " others=" + others;
  }

  private void step() {
    StepPlan plan = connector.scheduler().buildStep();
    worker.startStep(plan);
  }

  private StepResult await() throws IOException {
    try {
      StepResult result = worker.await(PATIENCE);
      connector.scheduler().onStepResult(result);
      return result;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    }
  }

  private static void respond(HttpExchange exchange, String json) throws IOException {
    byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(200, bytes.length);
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(bytes);
    }
  }

  private MemorySegment block(int layer, int id) {
    return cache.asSlice(((long) layer * BLOCKS + id) * BLOCK_BYTES, BLOCK_BYTES);
  }

  @Override
  public void close() {
    http.stop(0);
    connector.close();
    arena.close();
  }
}
