package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import tools.jackson.databind.JsonNode;

/** A prefiller and a decoder that know of each other, and what one does with them in a test. */
final class PeerPair implements AutoCloseable {
  private static final AtomicInteger NEXT = new AtomicInteger();

  final PeerProcess prefiller;
  final PeerProcess decoder;
  final PeerOptions options;

  private PeerPair(PeerProcess prefiller, PeerProcess decoder, PeerOptions options) {
    this.prefiller = prefiller;
    this.decoder = decoder;
    this.options = options;
  }

  /** Starts both, with these options for each; both are ready when this returns. */
  static PeerPair start(Object... options) {
    return start(
        PeerProcess.prefiller("prefiller").options(options),
        PeerProcess.decoder("decoder").options(options),
        options);
  }

  /** Starts both; {@code options} are those that shape the cache. */
  static PeerPair start(
      PeerProcess.Builder prefiller, PeerProcess.Builder decoder, Object... options) {
    PeerProcess p = prefiller.start();
    PeerProcess d = decoder.start();
    try {
      p.awaitReady();
      d.awaitReady();
    } catch (RuntimeException | Error e) {
      p.close();
      d.close();
      throw e;
    }
    return new PeerPair(p, d, shape(options));
  }

  /** The shape of the cache that options come to. */
  static PeerOptions shape(Object... options) {
    String[] args = new String[options.length + 2];
    args[0] = "--role";
    args[1] = "kv_producer";
    for (int i = 0; i < options.length; i++) {
      args[i + 2] = String.valueOf(options[i]);
    }
    return PeerOptions.parse(args);
  }

  /** A name that no other request of this run has. */
  static String fresh(String prefix) {
    return prefix + "-" + NEXT.incrementAndGet();
  }

  /** Makes blocks ready at the prefiller. */
  void prefill(String transferId, int... blocks) {
    prefiller.send("req_id", "p-" + transferId, "transfer_id", transferId, "block_ids", blocks);
    assertThat(
            prefiller.await("accepted", "transfer_id", transferId).path("delay_free").asBoolean())
        .as("blocks are kept")
        .isTrue();
  }

  /** The decoder's side of a transfer, as a command. */
  Map<String, Object> pullCommand(String transferId, int... blocks) {
    return pullCommand(prefiller.engineId(), prefiller.bootstrap(), transferId, blocks);
  }

  /** The same from any prefiller. */
  static Map<String, Object> pullCommand(
      String engineId, String bootstrap, String transferId, int... blocks) {
    Map<String, Object> command = new LinkedHashMap<>();
    command.put("req_id", "d-" + transferId);
    command.put("transfer_id", transferId);
    command.put("remote_engine_id", engineId);
    command.put("remote_bootstrap_addr", bootstrap);
    command.put("block_ids", blocks);
    return command;
  }

  /** Has the decoder fetch; returns when it has asked. */
  void pull(String transferId, int... blocks) {
    decoder.send(pullCommand(transferId, blocks));
    decoder.await("pulling");
  }

  /** Several in one scheduler step. */
  void pullBatch(List<Map<String, Object>> commands) {
    decoder.send("cmd", "pull_batch", "reqs", commands);
    decoder.await("pulling");
  }

  /** Waits until the decoder has got all blocks of a transfer. */
  JsonNode awaitReceived(String transferId) {
    JsonNode event = decoder.await("finished_recving", "req_id", "d-" + transferId);
    assertThat(event.path("load_error").asBoolean())
        .as("load_error of %s: %s", transferId, failure(transferId))
        .isFalse();
    return event;
  }

  private String failure(String transferId) {
    return decoder.has("failed", "req_id", "d-" + transferId)
        ? decoder.await("failed", "req_id", "d-" + transferId).toString()
        : "no failure told";
  }

  /** Waits until the decoder is told of a failure; its other events of it are taken too. */
  JsonNode awaitFailed(String transferId) {
    return awaitFailed(decoder, transferId);
  }

  static JsonNode awaitFailed(PeerProcess decoder, String transferId) {
    JsonNode failed = decoder.await("failed", "req_id", "d-" + transferId);
    assertThat(failed.path("reason").asString()).isNotBlank();
    JsonNode end = decoder.await("finished_recving", "req_id", "d-" + transferId);
    assertThat(end.path("load_error").asBoolean()).isTrue();
    return failed;
  }

  /** Waits until the prefiller may free the blocks of a transfer; returns why. */
  String awaitSent(String transferId) {
    return prefiller.await("finished_sending", "req_id", "p-" + transferId).path("end").asString();
  }

  /** The checksum of what the prefiller holds in these blocks, from the formula alone. */
  String expected(int... blocks) {
    return BlockPattern.of(options, options.seed()).sha256(options.layerIndices(), blocks);
  }

  /** Checks that the decoder's blocks hold the prefiller's, and its others nothing. */
  void verify(int[] sent, int[] received) {
    assertThat(decoder.checksum(received)).as("what arrived").isEqualTo(expected(sent));
    assertThat(decoder.nonzero(Blocks.others(options.numBlocks(), received)))
        .as("blocks beside it")
        .isZero();
  }

  /** Checks that nothing is left of any request on either side, soon. */
  void verifyIdle() {
    verifyIdle(prefiller);
    verifyIdle(decoder);
  }

  /** Checks that nothing is left of any request, soon. */
  static void verifyIdle(PeerProcess peer) {
    Awaitility.await()
        .atMost(Duration.ofSeconds(20))
        .pollInterval(Duration.ofMillis(50))
        .untilAsserted(() -> verifyIdleNow(peer));
  }

  private static void verifyIdleNow(PeerProcess peer) {
    JsonNode state = peer.state();
    for (String figure :
        List.of(
            "pulls",
            "sends",
            "waiting_pulls",
            "leases",
            "quarantined_blocks",
            "queued_transfers",
            "live_batches")) {
      assertThat(state.path(figure).asInt(-1)).as("%s of %s", figure, peer).isZero();
    }
    assertThat(state.path("outstanding").size()).as("outstanding of %s", peer).isZero();
    assertThat(state.path("healthy").asBoolean()).as("healthy, %s", peer).isTrue();
  }

  /** Waits until so many pulls wait at the prefiller for their prefill. */
  void awaitWaitingPulls(int n) {
    Awaitility.await()
        .atMost(PeerProcess.SOON)
        .pollInterval(Duration.ofMillis(20))
        .until(() -> prefiller.state().path("waiting_pulls").asInt() == n);
  }

  /** Waits until the first of these blocks have come, while most have not. */
  void awaitUnderWay(int... received) {
    int[] few = Blocks.part(0, 50, received);
    Awaitility.await()
        .atMost(PeerProcess.SOON)
        .pollInterval(Duration.ofMillis(2))
        .until(() -> decoder.touched(few) > 0);
    assertThat(decoder.has("finished_recving")).as("too fast to be caught").isFalse();
  }

  /** Begins a prefill that does not end yet. */
  void announce(String transferId, int... blocks) {
    prefiller.send(
        "cmd",
        "alloc",
        "req_id",
        "p-" + transferId,
        "transfer_id",
        transferId,
        "block_ids",
        blocks);
    prefiller.await("allocated", "req_id", "p-" + transferId);
  }

  /** Ends a prefill that has begun. */
  void finishPrefill(String transferId) {
    prefiller.send("cmd", "finish", "req_id", "p-" + transferId);
    prefiller.await("finished", "req_id", "p-" + transferId);
  }

  @Override
  public void close() {
    prefiller.close();
    decoder.close();
  }
}
