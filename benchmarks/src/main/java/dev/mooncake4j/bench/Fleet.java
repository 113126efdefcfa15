package dev.mooncake4j.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;

/**
 * The peers of one run, all with caches of one shape: a prefiller and a decoder of ours, where
 * asked for a pair of vLLM's, and a pair of bare engines. One thread drives them.
 */
final class Fleet implements AutoCloseable {
  static final int LAYERS = 28;
  static final int BLOCK_BYTES = 32 * 1024;

  private static final Duration START = Duration.ofMinutes(5);

  /** A connection of ours queues 4,096 messages, and drops what is more. */
  private static final int RELEASED_AT_ONCE = 1000;

  private static final Duration PATIENCE = Duration.ofMinutes(3);

  /**
   * vLLM hands all copies of a request to the engine at once, which by default rejects more than
   * some 2,000. These are what the connector of ours sets by itself.
   */
  private static final Map<String, String> LIMITS_RAISED =
      Map.of(
          "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", "65535",
          "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER", "65535",
          "MC_TCP_ADMISSION_TIMEOUT_MS", "60000");

  /** Who moves the bytes of a measurement. */
  enum Party {
    OURS("ours"),
    VLLM("vllm"),
    OURS_TO_VLLM("ours to vllm"),
    VLLM_TO_OURS("vllm to ours"),
    ENGINE_SPINNING("engine, spin"),
    ENGINE_PARKING("engine, park");

    final String title;

    Party(String title) {
      this.title = title;
    }

    boolean isEngine() {
      return this == ENGINE_SPINNING || this == ENGINE_PARKING;
    }
  }

  /**
   * One measurement.
   *
   * @param seconds of each request
   * @param total seconds from the first start to the last end
   * @param allocatedFrom heap bytes that the prefiller allocated meanwhile, or -1
   * @param allocatedTo heap bytes that the decoder allocated meanwhile, or -1
   */
  record Measured(List<Double> seconds, double total, long allocatedFrom, long allocatedTo) {
    static Measured of(List<Double> seconds, double total) {
      return new Measured(seconds, total, -1, -1);
    }
  }

  /** Bytes of each peer's cache. */
  long cacheBytes() {
    return (long) LAYERS * BLOCK_BYTES * blocks;
  }

  private record Peer(Child child, String engineId, String bootstrap) {}

  private final int blocks;
  private final Map<String, Peer> peers = new LinkedHashMap<>();
  private final List<Child> engines = new ArrayList<>();
  private String engineAddress = "";
  private long engineMemory;
  private int number;

  private Fleet(int blocks) {
    this.blocks = blocks;
  }

  /**
   * Starts all and waits until they can be used.
   *
   * @param blocks blocks of each peer's cache
   * @param vllmPython the Python that has vLLM, or {@code null} for none
   * @param vllmPeer the program that it runs
   * @param engines whether bare engines are wanted
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
    Fleet fleet = new Fleet(blocks);
    boolean up = false;
    try {
      List<String> roles = List.of("prefiller", "decoder");
      Map<String, Child> begun = new LinkedHashMap<>();
      for (String role : roles) {
        List<String> options = fleet.options(role, 0);
        options.addAll(more);
        begun.put(
            "ours-" + role,
            Child.start(
                "ours-" + role,
                Child.java(List.of("-Xmx512m"), BenchPeer.class, options),
                Map.of(),
                logs));
        if (vllmPython != null) {
          List<String> command = new ArrayList<>();
          command.add(vllmPython.toString());
          command.add(vllmPeer.toString());
          command.addAll(fleet.options(role, freePort()));
          begun.put("vllm-" + role, Child.start("vllm-" + role, command, LIMITS_RAISED, logs));
        }
      }
      if (engines) {
        for (String seed : List.of("9", "0")) {
          List<String> arguments =
              List.of(
                  String.valueOf(LAYERS),
                  String.valueOf(blocks),
                  String.valueOf(BLOCK_BYTES),
                  seed);
          String name = seed.equals("0") ? "engine-to" : "engine-from";
          fleet.engines.add(
              Child.start(
                  name,
                  Child.java(List.of("-Xmx512m"), EnginePeer.class, arguments),
                  Map.of(),
                  logs));
        }
      }
      for (var each : begun.entrySet()) {
        fleet.peers.put(each.getKey(), new Peer(each.getValue(), "", ""));
      }
      for (var each : begun.entrySet()) {
        JsonNode ready = each.getValue().await("ready", START);
        fleet.peers.put(
            each.getKey(),
            new Peer(
                each.getValue(),
                ready.path("engine_id").asString(),
                ready.path("bootstrap").asString("")));
      }
      for (Child engine : fleet.engines) {
        JsonNode ready = engine.await("ready", START);
        fleet.engineAddress = ready.path("address").asString();
        fleet.engineMemory = ready.path("memory").longValue();
      }
      up = true;
      return fleet;
    } finally {
      if (!up) {
        fleet.close();
      }
    }
  }

  private List<String> options(String role, int bootstrapPort) {
    boolean prefiller = role.equals("prefiller");
    return new ArrayList<>(
        List.of(
            "--role",
            prefiller ? "kv_producer" : "kv_consumer",
            "--layers",
            String.valueOf(LAYERS),
            "--num-blocks",
            String.valueOf(blocks),
            "--seed",
            prefiller ? (bootstrapPort == 0 ? "1" : "5") : "0",
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

  /** Whether this party can be measured here. */
  boolean has(Party party) {
    return switch (party) {
      case OURS -> true;
      case VLLM, OURS_TO_VLLM, VLLM_TO_OURS -> peers.containsKey("vllm-prefiller");
      case ENGINE_SPINNING, ENGINE_PARKING -> !engines.isEmpty();
    };
  }

  /**
   * Moves the blocks of a shape once, from anywhere to anywhere.
   *
   * @param verify whether the bytes are compared afterwards, with the decoder's zeroed before
   * @throws IllegalStateException if a request fails or other bytes arrive
   */
  Measured move(Party party, Shape shape, boolean verify, RandomGenerator random)
      throws InterruptedException {
    int[] source = shape.ids(blocks, random);
    int[] destination = shape.ids(blocks, random);
    Child from = from(party);
    Child to = to(party);
    if (verify) {
      JsonNode zeroed = to.ask("zeroed", PATIENCE, Map.of("cmd", "zero", "block_ids", destination));
      assert zeroed != null;
    }
    Measured measured =
        party.isEngine()
            ? write(party, source, destination)
            : pull(party, shape, source, destination);
    if (verify) {
      String sent = sha256(from, source);
      String arrived = sha256(to, destination);
      if (!sent.equals(arrived)) {
        throw new IllegalStateException(
            party.title + ", " + shape + ": other bytes arrived than were sent");
      }
    }
    return measured;
  }

  Child from(Party party) {
    return switch (party) {
      case OURS, OURS_TO_VLLM -> child("ours-prefiller");
      case VLLM, VLLM_TO_OURS -> child("vllm-prefiller");
      case ENGINE_SPINNING, ENGINE_PARKING -> engines.getFirst();
    };
  }

  Child to(Party party) {
    return switch (party) {
      case OURS, VLLM_TO_OURS -> child("ours-decoder");
      case VLLM, OURS_TO_VLLM -> child("vllm-decoder");
      case ENGINE_SPINNING, ENGINE_PARKING -> engines.getLast();
    };
  }

  private Child child(String name) {
    return peer(name).child();
  }

  private Peer peer(String name) {
    Peer peer = peers.get(name);
    if (peer == null) {
      throw new IllegalStateException("peer=" + name + " was not started");
    }
    return peer;
  }

  private static String sha256(Child child, int[] ids) throws InterruptedException {
    return child
        .ask("checksum", PATIENCE, Map.of("cmd", "checksum", "block_ids", ids))
        .path("sha256")
        .asString();
  }

  private Measured write(Party party, int[] source, int[] destination) throws InterruptedException {
    JsonNode written =
        engines
            .getFirst()
            .ask(
                "written",
                PATIENCE,
                Map.of(
                    "cmd",
                    "write",
                    "peer",
                    engineAddress,
                    "remote",
                    engineMemory,
                    "source",
                    source,
                    "destination",
                    destination,
                    "poll",
                    party == Party.ENGINE_SPINNING ? "spin" : "park"));
    double seconds = written.path("seconds").doubleValue();
    return Measured.of(List.of(seconds), seconds);
  }

  private Measured pull(Party party, Shape shape, int[] source, int[] destination)
      throws InterruptedException {
    Child from = from(party);
    Child to = to(party);
    Requests requests = requests(party, shape, source, destination);
    announce(from, requests);
    tellSent(from, shape.requests());
    JsonNode pulled = to.ask("pulled", PATIENCE, Map.of("cmd", "pull", "reqs", requests.pulls()));
    if (!pulled.path("failed").isEmpty()) {
      throw new IllegalStateException(
          party.title + ", " + shape + ": " + pulled.path("failed").get(0));
    }
    JsonNode sent = sent(from, shape.requests());
    List<Double> seconds = new ArrayList<>();
    long first = Long.MAX_VALUE;
    long last = Long.MIN_VALUE;
    for (int i = 0; i < shape.requests(); i++) {
      long started = pulled.path("started").get(i).longValue();
      long ended = pulled.path("ended").get(i).longValue();
      first = Math.min(first, started);
      last = Math.max(last, ended);
      seconds.add((ended - started) / 1e9);
    }
    return new Measured(
        seconds,
        (last - first) / 1e9,
        sent.path("allocated").longValue(),
        pulled.path("allocated").longValue());
  }

  /**
   * Fetches blocks of a prefill that begins when the decoder waits for it already.
   *
   * @param pause of each of the prefill's chunks
   * @param tell whether the prefiller tells what is finished after each
   * @return seconds from the prefill's end to the decoder's completion
   */
  double prefillAndFetch(
      Shape shape, int chunks, Duration pause, boolean tell, RandomGenerator random)
      throws InterruptedException {
    int[] source = shape.ids(blocks, random);
    int[] destination = shape.ids(blocks, random);
    Child from = from(Party.OURS);
    Child to = to(Party.OURS);
    JsonNode zeroed = to.ask("zeroed", PATIENCE, Map.of("cmd", "zero", "block_ids", destination));
    assert zeroed != null;
    Requests requests = requests(Party.OURS, shape, source, destination);
    to.tell(Map.of("cmd", "pull", "reqs", requests.pulls()));
    JsonNode prefilled =
        from.ask(
            "prefilled",
            PATIENCE,
            Map.of(
                "cmd",
                "prefill",
                "reqs",
                requests.prefills(),
                "chunks",
                chunks,
                "pause_nanos",
                pause.toNanos(),
                "tell",
                tell));
    JsonNode pulled = to.await("pulled", PATIENCE);
    if (!pulled.path("failed").isEmpty()) {
      throw new IllegalStateException(shape + ": " + pulled.path("failed").get(0));
    }
    tellSent(from, 1);
    JsonNode sent = sent(from, 1);
    assert sent != null;
    if (!sha256(from, source).equals(sha256(to, destination))) {
      throw new IllegalStateException(shape + ": other bytes arrived than were sent");
    }
    return (pulled.path("ended").get(0).longValue() - prefilled.path("ended").longValue()) / 1e9;
  }

  private static JsonNode sent(Child prefiller, int count) throws InterruptedException {
    JsonNode sent = prefiller.await("sent", PATIENCE);
    if (sent.path("ended").size() != count) {
      throw new IllegalStateException(
          "the prefiller tells " + sent.path("ended").size() + " of " + count + " as sent");
    }
    return sent;
  }

  /**
   * Lets requests go that were not fetched, all at once: a wire request without blocks for each.
   *
   * @return seconds of each from the decoder's step to the prefiller's result
   */
  Measured release(Party party, int count) throws InterruptedException {
    Child from = from(party);
    Requests requests = smallRequests(party, count);
    announce(from, requests);
    return released(party, requests);
  }

  private Measured released(Party party, Requests requests) throws InterruptedException {
    Child from = from(party);
    int count = requests.pulls().size();
    tellSent(from, count);
    JsonNode released =
        to(party).ask("released", PATIENCE, Map.of("cmd", "release", "reqs", requests.pulls()));
    JsonNode sent = sent(from, count);
    int expired = sent.path("ends").path("EXPIRED").asInt(0);
    if (expired > 0) {
      throw new IllegalStateException(party.title + ": blocks of " + expired + " expired");
    }
    List<Double> seconds = new ArrayList<>();
    long first = released.path("started").get(0).longValue();
    long last = first;
    for (int i = 0; i < count; i++) {
      Object id = requests.prefills().get(i).get("req_id");
      long ended = sent.path("ended").path(String.valueOf(id)).longValue();
      last = Math.max(last, ended);
      seconds.add((ended - released.path("started").get(i).longValue()) / 1e9);
    }
    return Measured.of(seconds, (last - first) / 1e9);
  }

  /**
   * Keeps leases alive for a while: prefills are done, the decoder has the requests in its queue
   * and renews. Afterwards they are let go, and none may have expired.
   *
   * @param settle before the measurement
   * @param hold the time that is measured
   * @return what it took
   */
  Held holdLeases(int count, Duration settle, Duration hold) throws InterruptedException {
    Child from = from(Party.OURS);
    Child to = to(Party.OURS);
    Requests requests = smallRequests(Party.OURS, count);
    announce(from, requests);
    JsonNode arrived =
        to.ask("arrived", PATIENCE, Map.of("cmd", "arrive", "reqs", requests.pulls()));
    assert arrived != null;
    Thread.sleep(settle);
    long renewals = renewals(from);
    double before = from.processorSeconds() + to.processorSeconds();
    Thread.sleep(hold);
    double took = from.processorSeconds() + to.processorSeconds() - before;
    renewals = renewals(from) - renewals;
    for (int i = 0; i < count; i += RELEASED_AT_ONCE) {
      var _ = released(Party.OURS, requests.part(i, Math.min(count, i + RELEASED_AT_ONCE)));
    }
    return new Held(took, renewals);
  }

  private static long renewals(Child prefiller) throws InterruptedException {
    return prefiller.ask("renewals", PATIENCE, Map.of("cmd", "renewals")).path("count").longValue();
  }

  /**
   * What holding leases took.
   *
   * @param processorSeconds of both processes
   * @param renewals leases that the prefiller has renewed
   */
  record Held(double processorSeconds, long renewals) {}

  /** Requests of one block each, which many of them share. */
  private Requests smallRequests(Party party, int count) {
    int[] ids = new int[count];
    for (int i = 0; i < count; i++) {
      ids[i] = i % blocks;
    }
    return requests(party, new Shape(count, 1, false), ids, ids);
  }

  private static void announce(Child prefiller, Requests requests) throws InterruptedException {
    JsonNode announced =
        prefiller.ask(
            "announced", PATIENCE, Map.of("cmd", "announce", "reqs", requests.prefills()));
    assert announced != null;
  }

  /** Lets the prefiller wait for the end of so many requests. */
  private static void tellSent(Child prefiller, int count) throws InterruptedException {
    JsonNode waiting =
        prefiller.ask(
            "waiting",
            PATIENCE,
            Map.of("cmd", "await_sent", "count", count, "timeout", PATIENCE.toSeconds() - 30));
    assert waiting != null;
  }

  /** What both sides are told of the same requests. */
  private record Requests(List<Map<String, ?>> prefills, List<Map<String, ?>> pulls) {
    Requests part(int from, int to) {
      return new Requests(prefills.subList(from, to), pulls.subList(from, to));
    }
  }

  private Requests requests(Party party, Shape shape, int[] source, int[] destination) {
    Peer prefiller =
        peer(
            party == Party.OURS || party == Party.OURS_TO_VLLM
                ? "ours-prefiller"
                : "vllm-prefiller");
    List<Map<String, ?>> prefills = new ArrayList<>();
    List<Map<String, ?>> pulls = new ArrayList<>();
    int n = shape.blocks();
    for (int i = 0; i < shape.requests(); i++) {
      int id = number++;
      prefills.add(
          Map.of(
              "req_id",
              "p-" + id,
              "transfer_id",
              "x-" + id,
              "block_ids",
              Arrays.copyOfRange(source, i * n, (i + 1) * n)));
      pulls.add(
          Map.of(
              "req_id",
              "d-" + id,
              "transfer_id",
              "x-" + id,
              "remote_engine_id",
              prefiller.engineId(),
              "remote_bootstrap_addr",
              prefiller.bootstrap(),
              "block_ids",
              Arrays.copyOfRange(destination, i * n, (i + 1) * n)));
    }
    return new Requests(prefills, pulls);
  }

  @Override
  public void close() {
    peers.values().forEach(peer -> peer.child().close());
    engines.forEach(Child::close);
  }
}
