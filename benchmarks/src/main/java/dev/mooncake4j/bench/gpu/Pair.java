package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.bench.measure.ChildProcess;
import dev.mooncake4j.bench.measure.ChildProcess.PeerFailure;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;

/** A prefiller and a decoder that transfer between their devices' memory. One thread at a time. */
final class Pair implements AutoCloseable {
  private static final Duration START = Duration.ofSeconds(90);
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private final ChildProcess prefiller;
  private final ChildProcess decoder;
  private final JsonNode prefillerReady;
  private final JsonNode decoderReady;
  private String bareAddress = "";
  private int pulls;

  private Pair(
      ChildProcess prefiller,
      ChildProcess decoder,
      JsonNode prefillerReady,
      JsonNode decoderReady) {
    this.prefiller = prefiller;
    this.decoder = decoder;
    this.prefillerReady = prefillerReady;
    this.decoderReady = decoderReady;
  }

  /**
   * What a peer's JVM is started with.
   *
   * @param environment variables beside this process's
   * @param logs where what it prints goes
   */
  record Setting(List<String> jvmArguments, Map<String, String> environment, Path logs) {
    private ChildProcess start(String name, String role, List<String> arguments) {
      List<String> jvm = new ArrayList<>();
      jvm.add("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
      jvm.addAll(jvmArguments);
      List<String> all = new ArrayList<>();
      all.add(role);
      all.addAll(arguments);
      return ChildProcess.start(name, ChildProcess.java(jvm, Peer.class, all), environment, logs);
    }
  }

  /** Which blocks go where. */
  record Blocks(Pattern pattern, int count, long seed) {
    Map<String, Object> fields() {
      Map<String, Object> fields = new HashMap<>();
      fields.put("pattern", pattern.name());
      fields.put("count", count);
      fields.put("seed", seed);
      return fields;
    }
  }

  /** What a pull took. */
  record Pulled(long nanos, long writeNanos, long bytes, int descriptors) {}

  /**
   * Starts both.
   *
   * @param device {@code cuda} or {@code host}
   * @throws PeerFailure if one of them does not start; the other is ended
   */
  static Pair start(Setting setting, Shape shape, int blocks, String transport, String device)
      throws InterruptedException {
    List<String> arguments = List.of(shape.name(), Integer.toString(blocks), transport, device);
    String name = transport + "-" + shape.name();
    ChildProcess prefiller = setting.start("prefiller-" + name, "prefiller", arguments);
    ChildProcess decoder = null;
    try {
      decoder = setting.start("decoder-" + name, "decoder", arguments);
      JsonNode p = prefiller.await("ready", START);
      JsonNode d = decoder.await("ready", START);
      for (JsonNode ready : new JsonNode[] {p, d}) {
        if (!ready.get("transport").asString().equals(transport)) {
          throw new PeerFailure("transport " + transport + " was asked for, but it is " + ready);
        }
      }
      return new Pair(prefiller, decoder, p, d);
    } catch (PeerFailure e) {
      prefiller.close();
      if (decoder != null) {
        decoder.close();
      }
      throw e;
    }
  }

  private static JsonNode ask(ChildProcess peer, String command, Map<String, ?> fields)
      throws InterruptedException {
    return peer.ask(command, fields, Peer.DONE, PATIENCE).path(Peer.DONE);
  }

  String description() {
    return prefillerReady.get("device").asString();
  }

  /** One request through the connector. */
  Pulled pull(Blocks blocks) throws InterruptedException {
    Map<String, Object> fields = blocks.fields();
    fields.put("id", "r" + ++pulls);
    fields.put("engine_id", prefillerReady.get("engine_id").asString());
    fields.put("bootstrap", prefillerReady.get("bootstrap").asString());
    ask(prefiller, "prefill", fields);
    long nanos = ask(decoder, "pull", fields).get("nanos").asLong();
    JsonNode written = ask(prefiller, "written", Map.of());
    return new Pulled(
        nanos,
        written.get("nanos").asLong(),
        written.get("bytes").asLong(),
        written.get("descriptors").asInt());
  }

  /** The same copies as one batch of an engine without a connector. */
  JsonNode bare(Blocks blocks) throws InterruptedException {
    if (bareAddress.isEmpty()) {
      bareAddress = ask(decoder, "bare_address", Map.of()).get("address").asString();
    }
    return ask(prefiller, "bare", towards(blocks, bareAddress));
  }

  /** Nanoseconds of one plain copy on the prefiller's device. */
  long plain(long bytes) throws InterruptedException {
    return ask(prefiller, "plain", Map.of("bytes", bytes)).get("nanos").asLong();
  }

  /** The connector's engine under some settings. */
  JsonNode sweep(Blocks blocks, int lanes, int window, int rounds) throws InterruptedException {
    String address = ask(decoder, "engine_address", Map.of()).get("address").asString();
    Map<String, Object> fields = towards(blocks, address);
    fields.put("lanes", Integer.toString(lanes));
    fields.put("window", Integer.toString(window));
    fields.put("rounds", rounds);
    return ask(prefiller, "sweep", fields);
  }

  /** What CUDA alone takes for the same copies. */
  JsonNode cuda(Blocks blocks, int rounds) throws InterruptedException {
    Map<String, Object> fields = towards(blocks, "");
    fields.put("rounds", rounds);
    return ask(prefiller, "cuda", fields);
  }

  private Map<String, Object> towards(Blocks blocks, String peer) {
    Map<String, Object> fields = blocks.fields();
    fields.put("peer", peer);
    fields.put("target", decoderReady.get("address").asLong());
    return fields;
  }

  void zero() throws InterruptedException {
    ask(decoder, "zero", Map.of());
  }

  /**
   * Compares the decoder's whole cache, of which only these blocks have been written.
   *
   * @throws PeerFailure if a word is wrong
   */
  void verify(Blocks blocks) throws InterruptedException {
    long wrong = ask(decoder, "verify", blocks.fields()).get("wrong_words").asLong();
    if (wrong != 0) {
      throw new PeerFailure(wrong + " words of the decoder's cache are wrong: " + blocks);
    }
  }

  @Override
  public void close() {
    decoder.close();
    prefiller.close();
  }
}
