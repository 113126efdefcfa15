package dev.mooncake4j.bench;

import dev.mooncake4j.bench.measure.ChildProcess;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The peers of one run, all with caches of one shape: a prefiller and a decoder of ours, where
 * asked for a pair of vLLM's, and a pair of bare engines. It starts and ends them and numbers their
 * requests. One thread drives them.
 */
final class Fleet implements AutoCloseable {
  static final int LAYERS = 28;
  static final int BLOCK_BYTES = 32 * 1024;

  private static final Duration START = Duration.ofMinutes(5);
  private static final List<String> HEAP = List.of("-Xmx512m");

  private static final String OUR_PREFILLER = "ours-prefiller";
  private static final String OUR_DECODER = "ours-decoder";
  private static final String VLLM_PREFILLER = "vllm-prefiller";
  private static final String VLLM_DECODER = "vllm-decoder";
  private static final String ENGINE_FROM = "engine-from";
  private static final String ENGINE_TO = "engine-to";

  /**
   * vLLM hands all copies of a request to the engine at once, which by default rejects more than
   * some 2,000. These are what the connector of ours sets by itself.
   */
  private static final Map<String, String> LIMITS_RAISED =
      Map.of(
          "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", "65535",
          "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER", "65535",
          "MC_TCP_ADMISSION_TIMEOUT_MS", "60000");

  private final int blocks;
  private final Path logs;
  private final Map<String, RemotePeer> peers = new LinkedHashMap<>();
  private int requests;

  private Fleet(int blocks, Path logs) {
    this.blocks = blocks;
    this.logs = logs;
  }

  /**
   * Starts all and waits until they can be used.
   *
   * @param blocks blocks of each peer's cache
   * @param vllmPython the Python that has vLLM, or {@code null} for none
   * @param vllmPeer the program that it runs
   * @param engines whether bare engines are wanted
   * @param more options of our own two
   * @param logs where the peers' logs go
   */
  static Fleet start(
      int blocks,
      @Nullable Path vllmPython,
      Path vllmPeer,
      boolean engines,
      List<String> more,
      Path logs)
      throws InterruptedException {
    Fleet fleet = new Fleet(blocks, logs);
    boolean up = false;
    try {
      fleet.startOurs(OUR_PREFILLER, true, more);
      fleet.startVllms(VLLM_PREFILLER, true, vllmPython, vllmPeer);
      fleet.startOurs(OUR_DECODER, false, more);
      fleet.startVllms(VLLM_DECODER, false, vllmPython, vllmPeer);
      if (engines) {
        fleet.startEngine(ENGINE_FROM, "9");
        fleet.startEngine(ENGINE_TO, "0");
      }
      for (RemotePeer peer : fleet.peers.values()) {
        peer.awaitReady(START);
      }
      up = true;
      return fleet;
    } finally {
      if (!up) {
        fleet.close();
      }
    }
  }

  private void startOurs(String name, boolean prefiller, List<String> more) {
    List<String> options = options(prefiller, prefiller ? "1" : "0", 0);
    options.addAll(more);
    start(name, ChildProcess.java(HEAP, BenchPeer.class, options), Map.of());
  }

  private void startVllms(String name, boolean prefiller, @Nullable Path python, Path program) {
    if (python != null) {
      List<String> command = new ArrayList<>();
      command.add(python.toString());
      command.add(program.toString());
      command.addAll(options(prefiller, prefiller ? "5" : "0", freePort()));
      start(name, command, LIMITS_RAISED);
    }
  }

  private void startEngine(String name, String seed) {
    List<String> arguments =
        List.of(String.valueOf(LAYERS), String.valueOf(blocks), String.valueOf(BLOCK_BYTES), seed);
    start(name, ChildProcess.java(HEAP, EnginePeer.class, arguments), Map.of());
  }

  private void start(String name, List<String> command, Map<String, String> environment) {
    peers.put(name, RemotePeer.start(name, command, environment, logs));
  }

  private List<String> options(boolean prefiller, String seed, int bootstrapPort) {
    return new ArrayList<>(
        List.of(
            "--role",
            prefiller ? "kv_producer" : "kv_consumer",
            "--layers",
            String.valueOf(LAYERS),
            "--num-blocks",
            String.valueOf(blocks),
            "--seed",
            seed,
            "--bootstrap-port",
            String.valueOf(bootstrapPort)));
  }

  static int freePort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException("no free port", e);
    }
  }

  /** Blocks of each peer's cache. */
  int blocks() {
    return blocks;
  }

  /** Bytes of each peer's cache. */
  long cacheBytes() {
    return (long) LAYERS * BLOCK_BYTES * blocks;
  }

  /** Whether this party can be measured here. */
  boolean has(Party party) {
    return peers.containsKey(sender(party)) && peers.containsKey(receiver(party));
  }

  /** The peer whose blocks a party moves. */
  RemotePeer from(Party party) {
    return peer(sender(party));
  }

  /** The peer to which a party moves them. */
  RemotePeer to(Party party) {
    return peer(receiver(party));
  }

  private static String sender(Party party) {
    return switch (party) {
      case OURS, OURS_TO_VLLM -> OUR_PREFILLER;
      case VLLM, VLLM_TO_OURS -> VLLM_PREFILLER;
      case ENGINE_SPINNING, ENGINE_PARKING -> ENGINE_FROM;
    };
  }

  private static String receiver(Party party) {
    return switch (party) {
      case OURS, VLLM_TO_OURS -> OUR_DECODER;
      case VLLM, OURS_TO_VLLM -> VLLM_DECODER;
      case ENGINE_SPINNING, ENGINE_PARKING -> ENGINE_TO;
    };
  }

  private RemotePeer peer(String name) {
    RemotePeer peer = peers.get(name);
    if (peer == null) {
      throw new IllegalStateException("peer=" + name + " was not started");
    }
    return peer;
  }

  /** New requests of a party, with ids that none had before. */
  Requests requests(Party party, Shape shape, int[] source, int[] destination) {
    int first = requests;
    requests += shape.requests();
    return Requests.of(first, from(party), shape, source, destination);
  }

  @Override
  public void close() {
    peers.values().forEach(RemotePeer::close);
  }
}
