package dev.mooncake4j.examples.demo;

import dev.mooncake4j.connector.KvTransferParams;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import tools.jackson.databind.JsonNode;

/**
 * Starts a prefiller and a decoder as two JVMs on loopback, plays the proxy between them, and
 * checks every byte that arrives. Exit code 0 only if all is well.
 */
public final class KvDemo {
  private static final long PATIENCE_SECONDS = 60;

  private final PrintStream out;
  private final DemoProcess prefiller;
  private final DemoProcess decoder;
  private final String engineId;
  private final String bootstrap;
  private long verifiedBytes;

  /**
   * One request of the demo.
   *
   * @param decoderFirst whether the decoder asks before the prefill has begun
   * @param blocks of 16 tokens in its prompt
   * @param cachedBlocks of them that the decoder has in its prefix cache already
   */
  private record Request(boolean decoderFirst, int blocks, int cachedBlocks) {}

  private static final List<Request> REQUESTS =
      List.of(
          new Request(false, 4, 0),
          new Request(true, 4, 0),
          new Request(false, 1, 0),
          new Request(true, 4, 2),
          new Request(false, 16, 0),
          new Request(true, 64, 0),
          new Request(false, 64, 16),
          new Request(true, 128, 0));

  private KvDemo(
      PrintStream out,
      DemoProcess prefiller,
      DemoProcess decoder,
      String engineId,
      String bootstrap) {
    this.out = out;
    this.prefiller = prefiller;
    this.decoder = decoder;
    this.engineId = engineId;
    this.bootstrap = bootstrap;
  }

  /** Runs the demo; takes no arguments. */
  public static void main(String[] args) throws IOException, InterruptedException {
    int code = run(System.out, Files.createTempDirectory("mooncake4j-demo"));
    if (System.out.checkError()) {
      System.err.println("demo: failed: its output could not be written");
      code = 1;
    }
    System.exit(code);
  }

  private static int run(PrintStream out, Path logs) throws IOException, InterruptedException {
    try (DemoProcess prefiller =
            DemoProcess.start("prefiller", "kv_producer", "demo-prefiller", logs);
        DemoProcess decoder = DemoProcess.start("decoder", "kv_consumer", "demo-decoder", logs)) {
      return run(out, prefiller, decoder);
    }
  }

  /** The failure is told before the servers are closed: the one that is left may take its time. */
  private static int run(PrintStream out, DemoProcess prefiller, DemoProcess decoder)
      throws InterruptedException {
    prefiller.watch(decoder);
    decoder.watch(prefiller);
    try {
      JsonNode p = prefiller.next(PATIENCE_SECONDS);
      JsonNode d = decoder.next(PATIENCE_SECONDS);
      out.printf(
          "prefiller  pid %-7d engine_id %s, transport %s, bootstrap %s%n",
          prefiller.pid(),
          p.get("engine_id").asString(),
          p.get("transport").asString(),
          p.get("bootstrap").asString());
      out.printf(
          "decoder    pid %-7d engine_id %s, transport %s%n",
          decoder.pid(), d.get("engine_id").asString(), d.get("transport").asString());
      out.println(
          "KV         SmolLM2-135M-Instruct, 30 layers, blocks of 16 tokens, at scattered ids");
      out.println();
      out.printf(
          "%-8s %-16s %7s %7s %12s %12s %9s %9s  %s%n",
          "request",
          "order",
          "prompt",
          "blocks",
          "descriptors",
          "bytes",
          "copy ms",
          "total ms",
          "bytes verified");
      KvDemo demo =
          new KvDemo(
              out,
              prefiller,
              decoder,
              p.get("engine_id").asString(),
              p.get("bootstrap").asString());
      for (int i = 0; i < REQUESTS.size(); i++) {
        demo.play(i + 1, REQUESTS.get(i));
      }
      out.printf(
          Locale.ROOT,
          "%ndemo: ok, %d requests, %d bytes verified%n",
          REQUESTS.size(),
          demo.verifiedBytes);
      return 0;
    } catch (DemoProcess.DemoFailure e) {
      out.println();
      out.println("demo: failed: " + e.getMessage());
      out.flush();
      return 1;
    }
  }

  private void play(int number, Request request) throws InterruptedException {
    String transferId = "demo-" + number;
    String prefillId = "prefill-" + number;
    String decodeId = "decode-" + number;
    Map<String, ?> toPrefiller =
        begin(prefillId, request.blocks(), 0, KvTransferParams.forPrefiller(transferId));
    Map<String, ?> toDecoder =
        begin(
            decodeId,
            request.blocks(),
            request.cachedBlocks(),
            KvTransferParams.forDecoder(transferId, engineId, bootstrap));
    Map<String, ?> finish = Map.of("cmd", "finish", "request_id", prefillId);
    if (request.decoderFirst()) {
      decoder.send(toDecoder);
      prefiller.send(toPrefiller);
      prefiller.send(finish);
      expect(prefiller, "prefilled", prefillId);
    } else {
      prefiller.send(toPrefiller);
      prefiller.send(finish);
      expect(prefiller, "prefilled", prefillId);
      decoder.send(toDecoder);
    }
    JsonNode copied = expect(prefiller, "copied", null);
    JsonNode received = expect(decoder, "received", decodeId);
    JsonNode sent = expect(prefiller, "sent", prefillId);
    if (!sent.get("end").asString().equals("SERVED")) {
      throw new DemoProcess.DemoFailure("request " + number + " ended as " + sent);
    }
    long wrong = received.get("wrong_bytes").asLong();
    long bytes = received.get("bytes").asLong();
    boolean ok = wrong == 0 && bytes == copied.get("bytes").asLong();
    out.printf(
        Locale.ROOT,
        "%-8d %-16s %7d %7d %12d %12d %9.2f %9.2f  %s%n",
        number,
        request.decoderFirst() ? "decoder first" : "prefiller first",
        request.blocks() * RealKv.BLOCK_TOKENS,
        received.get("blocks").asInt(),
        copied.get("descriptors").asInt(),
        bytes,
        copied.get("millis").asDouble(),
        received.get("millis").asDouble(),
        ok ? "all" : "NO: " + wrong + " are wrong");
    if (!ok) {
      throw new DemoProcess.DemoFailure(
          "request " + number + ": wrong_bytes=" + wrong + " of " + bytes);
    }
    verifiedBytes += bytes;
  }

  private static Map<String, ?> begin(
      String requestId, int blocks, int cachedBlocks, KvTransferParams params) {
    return Map.of(
        "cmd", "begin",
        "request_id", requestId,
        "blocks", blocks,
        "cached_blocks", cachedBlocks,
        "kv_transfer_params", params.toMap());
  }

  private static JsonNode expect(
      DemoProcess process, String kind, @org.jspecify.annotations.Nullable String requestId)
      throws InterruptedException {
    JsonNode event = process.next(PATIENCE_SECONDS);
    boolean right =
        event.get("event").asString().equals(kind)
            && (requestId == null || event.get("request_id").asString().equals(requestId));
    if (!right) {
      throw new DemoProcess.DemoFailure("expected " + kind + " of " + requestId + ", got " + event);
    }
    return event;
  }
}
