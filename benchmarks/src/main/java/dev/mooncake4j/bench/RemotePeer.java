package dev.mooncake4j.bench;

import dev.mooncake4j.bench.measure.ChildProcess;
import dev.mooncake4j.bench.measure.ChildProcess.PeerFailure;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.MissingNode;

/**
 * The driver's end of one {@link BenchPeer}, of vLLM's {@code bench_peer.py} or of an {@link
 * EnginePeer}: a method for each of the commands that they have. Each waits for the answer and
 * throws {@link PeerFailure} where another comes, or none. One thread drives it.
 */
final class RemotePeer implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  /** So long the peer itself waits, and then answers with what it has. */
  private static final Duration SENT_PATIENCE = PATIENCE.minusSeconds(30);

  private final String name;
  private final ChildProcess child;
  private JsonNode ready = MissingNode.getInstance();

  private RemotePeer(String name, ChildProcess child) {
    this.name = name;
    this.child = child;
  }

  /** Starts one, which can be used after {@link #awaitReady}. */
  static RemotePeer start(
      String name, List<String> command, Map<String, String> environment, Path logs) {
    return new RemotePeer(name, ChildProcess.start(name, command, environment, logs));
  }

  void awaitReady(Duration patience) throws InterruptedException {
    ready = child.await("ready", patience);
  }

  String engineId() {
    return ready.path("engine_id").asString();
  }

  /** Its bootstrap server's address, or nothing where it has none. */
  String bootstrap() {
    return ready.path("bootstrap").asString("");
  }

  private JsonNode ask(String command, Map<String, ?> fields, String event)
      throws InterruptedException {
    return child.ask(command, fields, event, PATIENCE);
  }

  // ---- Blocks

  /** Makes blocks zero. */
  void zero(int[] ids) throws InterruptedException {
    var _ = ask("zero", Map.of("block_ids", ids), "zeroed");
  }

  /** A digest of what blocks hold. */
  String sha256(int[] ids) throws InterruptedException {
    return ask("checksum", Map.of("block_ids", ids), "checksum").path("sha256").asString();
  }

  // ---- A prefiller

  /** Prefills begin and end: their blocks can be fetched. */
  void announce(Requests requests) throws InterruptedException {
    var _ = ask("announce", Map.of("reqs", requests.prefills()), "announced");
  }

  /**
   * One prefill of some chunks.
   *
   * @param pause of each chunk
   * @param tell whether what is finished is told after each
   * @return its end, in nanoseconds of the monotonic clock
   */
  long prefill(Requests requests, int chunks, Duration pause, boolean tell)
      throws InterruptedException {
    return ask(
            "prefill",
            Map.of(
                "reqs",
                requests.prefills(),
                "chunks",
                chunks,
                "pause_nanos",
                pause.toNanos(),
                "tell",
                tell),
            "prefilled")
        .path("ended")
        .longValue();
  }

  /** Lets it wait for the end of so many requests; {@link #sent} tells of it. */
  void beginAwaitingSent(int count) throws InterruptedException {
    var _ =
        ask("await_sent", Map.of("count", count, "timeout", SENT_PATIENCE.toSeconds()), "waiting");
  }

  /** The ends of the requests that it was told to wait for. */
  Sent sent(int count) throws InterruptedException {
    JsonNode sent = child.await("sent", PATIENCE);
    if (sent.path("ended").size() != count) {
      throw new IllegalStateException(
          "the prefiller tells " + sent.path("ended").size() + " of " + count + " as sent");
    }
    return new Sent(sent);
  }

  /** Requests whose sending has ended. */
  record Sent(JsonNode event) {
    /** When a request ended, in nanoseconds of the monotonic clock. */
    long ended(String requestId) {
      return event.path("ended").path(requestId).longValue();
    }

    /** Those whose blocks were let go because nobody had fetched them in time. */
    int expired() {
      return event.path("ends").path("EXPIRED").asInt(0);
    }

    /** Heap bytes allocated meanwhile, or -1. */
    long allocated() {
      return event.path("allocated").longValue();
    }
  }

  /** Leases renewed so far. */
  long renewals() throws InterruptedException {
    return ask("renewals", Map.of(), "renewals").path("count").longValue();
  }

  // ---- A decoder

  /** Fetches the requests' blocks, all at once, and waits until they are there. */
  Pulled pull(Requests requests) throws InterruptedException {
    beginPull(requests);
    return pulled();
  }

  /** Lets it fetch the requests' blocks; {@link #pulled} waits until they are there. */
  void beginPull(Requests requests) {
    child.tell("pull", Map.of("reqs", requests.pulls()));
  }

  /** The ends of the requests whose fetching was begun; fails if one of them has failed. */
  Pulled pulled() throws InterruptedException {
    JsonNode pulled = child.await("pulled", PATIENCE);
    if (!pulled.path("failed").isEmpty()) {
      throw new PeerFailure(name + ": " + pulled.path("failed").get(0));
    }
    return new Pulled(pulled);
  }

  /** Requests that were fetched; times are nanoseconds of the monotonic clock. */
  record Pulled(JsonNode event) {
    long started(int index) {
      return event.path("started").get(index).longValue();
    }

    long ended(int index) {
      return event.path("ended").get(index).longValue();
    }

    /** Heap bytes allocated meanwhile, or -1. */
    long allocated() {
      return event.path("allocated").longValue();
    }
  }

  /** Queues requests: with leases their renewals begin. */
  void arrive(Requests requests) throws InterruptedException {
    var _ = ask("arrive", Map.of("reqs", requests.pulls()), "arrived");
  }

  /**
   * Lets requests go that were not fetched: a wire request without blocks for each.
   *
   * @return when each was begun, in nanoseconds of the monotonic clock
   */
  long[] release(Requests requests) throws InterruptedException {
    JsonNode started = ask("release", Map.of("reqs", requests.pulls()), "released").path("started");
    long[] nanos = new long[requests.count()];
    for (int i = 0; i < nanos.length; i++) {
      nanos[i] = started.get(i).longValue();
    }
    return nanos;
  }

  // ---- An engine

  /**
   * Writes blocks to another engine as one batch.
   *
   * @param spin whether the engine is polled without a pause
   * @return seconds
   */
  double write(RemotePeer to, int[] source, int[] destination, boolean spin)
      throws InterruptedException {
    return ask(
            "write",
            Map.of(
                "peer",
                to.ready.path("address").asString(),
                "remote",
                to.ready.path("memory").longValue(),
                "source",
                source,
                "destination",
                destination,
                "poll",
                spin ? "spin" : "park"),
            "written")
        .path("seconds")
        .doubleValue();
  }

  // ---- Its process

  /** Processor time so far, in steps of some milliseconds. */
  double processorSeconds() {
    return child.processorSeconds();
  }

  /** Its memory that lies in main memory now, or -1 where the system does not tell. */
  long residentBytes() {
    return child.residentBytes();
  }

  @Override
  public void close() {
    child.close();
  }
}
