package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** One side goes away, at any moment; the other is told soon, and goes on. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class KilledPeerTest {
  private static final int BLOCKS = 8192;
  private static final int LAYERS = 25;
  private static final Object[] SMALL = {"--layers", 2, "--num-blocks", 64, "--block-len", 4096};
  private static final Object[] LARGE = {
    "--layers", LAYERS, "--num-blocks", BLOCKS, "--block-len", 2048
  };

  private final List<AutoCloseable> started = new ArrayList<>();

  @AfterEach
  void stop() throws Exception {
    for (AutoCloseable each : started) {
      each.close();
    }
  }

  /** Has a pair or a process ended with the test. */
  private <T extends AutoCloseable> T until(T end) {
    started.add(end);
    return end;
  }

  private static void tell(String what, JsonNode failed) {
    System.out.printf(
        "%s: told after %.2f s, stage=%s reason=%s%n",
        what,
        failed.path("seconds").asDouble(),
        failed.path("stage").asString(),
        failed.path("reason").asString());
  }

  @Test
  void prefillerKilledWhileTheDecoderWaits() {
    PeerPair p = until(PeerPair.start(SMALL));
    String id = PeerPair.fresh("killed");
    p.announce(id, 1, 2);
    p.pull(id, 1, 2);
    p.awaitWaitingPulls(1);
    p.prefiller.kill();
    JsonNode failed = p.awaitFailed(id);
    tell("prefiller killed while the decoder waits", failed);
    assertThat(failed.path("stage").asString()).isEqualTo("SIDE_CHANNEL");
    PeerPair.verifyIdle(p.decoder);
  }

  @Test
  void prefillerStoppedWhileTheDecoderWaits() {
    PeerPair p = until(PeerPair.start(SMALL));
    String id = PeerPair.fresh("stopped");
    p.announce(id, 1, 2);
    p.pull(id, 1, 2);
    p.awaitWaitingPulls(1);
    p.prefiller.signal("STOP");
    JsonNode failed = p.awaitFailed(id);
    tell("prefiller stopped while the decoder waits", failed);
    assertThat(failed.path("stage").asString()).isEqualTo("SIDE_CHANNEL");
    assertThat(failed.path("quiet").asBoolean()).as("it may come back").isFalse();
    p.prefiller.signal("CONT");
    p.decoder.await("quieted", "req_id", failed.path("req_id").asString());
    PeerPair.verifyIdle(p.decoder);
  }

  @Test
  void prefillerKilledDuringATransfer() {
    PeerPair p = until(PeerPair.start(LARGE));
    Random random = new Random(1);
    int[] received = Blocks.scattered(4000, BLOCKS, random);
    String id = PeerPair.fresh("torn");
    p.prefill(id, Blocks.scattered(4000, BLOCKS, random));
    p.pull(id, received);
    p.awaitUnderWay(received);
    p.prefiller.kill();
    JsonNode failed = p.awaitFailed(id);
    tell("prefiller killed during a transfer", failed);
    assertThat(failed.path("blocks").asInt()).isEqualTo(4000);
    String quiet = p.decoder.checksum(received);
    assertThat(p.decoder.touched(received)).isBetween(1, 4000 * LAYERS - 1);
    PeerPair.verifyIdle(p.decoder);
    assertThat(p.decoder.checksum(received)).as("nothing is written later").isEqualTo(quiet);
  }

  @Test
  void decoderKilledDuringATransfer() {
    PeerPair p =
        until(
            PeerPair.start(
                PeerProcess.prefiller("prefiller").options(LARGE).option("--abort-timeout", 5),
                PeerProcess.decoder("decoder").options(LARGE),
                LARGE));
    Random random = new Random(2);
    int[] sent = Blocks.scattered(4000, BLOCKS, random);
    int[] received = Blocks.scattered(4000, BLOCKS, random);
    String id = PeerPair.fresh("gone");
    p.prefill(id, sent);
    p.pull(id, received);
    p.awaitUnderWay(received);
    p.decoder.kill();
    JsonNode freed = p.prefiller.await("finished_sending", "req_id", "p-" + id);
    System.out.printf(
        "decoder killed during a transfer: blocks free after %.2f s, end=%s (abort timeout 5 s)%n",
        freed.path("seconds").asDouble(), freed.path("end").asString());
    assertThat(freed.path("end").asString()).isEqualTo("EXPIRED");
    PeerPair.verifyIdle(p.prefiller);

    PeerProcess next = until(PeerProcess.decoder("next").options(LARGE).startReady());
    String again = PeerPair.fresh("next");
    p.prefill(again, sent);
    next.send(p.pullCommand(again, received));
    JsonNode event = next.await("finished_recving", "req_id", "d-" + again);
    assertThat(event.path("load_error").asBoolean()).isFalse();
    assertThat(next.checksum(received)).isEqualTo(p.expected(sent));
  }

  @Test
  void decoderKilledWhileItWaits() {
    PeerPair p =
        until(
            PeerPair.start(
                PeerProcess.prefiller("prefiller").options(SMALL).option("--abort-timeout", 4),
                PeerProcess.decoder("decoder").options(SMALL),
                SMALL));
    String id = PeerPair.fresh("left");
    p.announce(id, 1, 2);
    p.pull(id, 1, 2);
    p.awaitWaitingPulls(1);
    p.decoder.kill();
    p.finishPrefill(id);
    assertThat(p.awaitSent(id)).isEqualTo("EXPIRED");
    PeerPair.verifyIdle(p.prefiller);
  }

  @Test
  void prefillerComesBackUnderAnotherEngineId() {
    PeerPair p = until(PeerPair.start(SMALL));
    String oldEngine = p.prefiller.engineId();
    String bootstrap = p.prefiller.bootstrap();
    String before = PeerPair.fresh("before");
    p.prefill(before, 1, 2);
    p.pull(before, 3, 4);
    p.awaitReceived(before);
    int port = p.prefiller.bootstrapPort();
    p.prefiller.kill();

    PeerProcess back =
        until(
            PeerProcess.prefiller("back")
                .options(SMALL)
                .options("--bootstrap-port", port, "--seed", 9)
                .startReady());
    String old = PeerPair.fresh("old");
    p.decoder.send(PeerPair.pullCommand(oldEngine, bootstrap, old, 5));
    JsonNode failed = p.awaitFailed(old);
    tell("pull from an engine id that is gone", failed);
    assertThat(failed.path("stage").asString()).isIn("SIDE_CHANNEL", "BOOTSTRAP");
    fetch(p, back, back.engineId(), bootstrap);
    PeerPair.verifyIdle(p.decoder);
  }

  @Test
  void prefillerComesBackUnderTheSameEngineId() {
    PeerPair p =
        until(
            PeerPair.start(
                PeerProcess.prefiller("prefiller").options(SMALL).option("--engine-id", "one"),
                PeerProcess.decoder("decoder").options(SMALL),
                SMALL));
    String bootstrap = p.prefiller.bootstrap();
    String before = PeerPair.fresh("before");
    p.prefill(before, 1, 2);
    p.pull(before, 3, 4);
    p.awaitReceived(before);
    int port = p.prefiller.bootstrapPort();
    p.prefiller.kill();

    PeerProcess back =
        until(
            PeerProcess.prefiller("back")
                .options(SMALL)
                .options("--engine-id", "one", "--bootstrap-port", port, "--seed", 9)
                .startReady());
    fetch(p, back, "one", bootstrap);
    PeerPair.verifyIdle(p.decoder);
  }

  private static void fetch(PeerPair p, PeerProcess from, String engineId, String bootstrap) {
    String id = PeerPair.fresh("back");
    from.send("req_id", "p-" + id, "transfer_id", id, "block_ids", new int[] {10, 11});
    from.await("accepted", "transfer_id", id);
    p.decoder.zero();
    p.decoder.send(PeerPair.pullCommand(engineId, bootstrap, id, 20, 30));
    p.awaitReceived(id);
    assertThat(p.decoder.checksum(20, 30))
        .isEqualTo(
            BlockPattern.of(p.options, 9).sha256(p.options.layerIndices(), new int[] {10, 11}));
    from.await("finished_sending", "req_id", "p-" + id);
  }

  @Test
  void prefillerTerminatedWhileTheDecoderWaits() {
    PeerPair p = until(PeerPair.start(SMALL));
    String id = PeerPair.fresh("term");
    p.announce(id, 1, 2);
    p.pull(id, 1, 2);
    p.awaitWaitingPulls(1);
    p.prefiller.terminate();
    JsonNode failed = p.awaitFailed(id);
    tell("prefiller terminated while the decoder waits", failed);
    assertThat(failed.path("reason").asString()).contains("connector is closed");
    assertThat(p.prefiller.awaitExit()).isEqualTo(143);
    assertThat(p.prefiller.leftFiles()).isEmpty();
    assertThat(p.prefiller.errorText()).doesNotContain("hs_err").doesNotContain("SIGSEGV");
  }

  @Test
  void decoderTerminatedWhileItWaits() {
    PeerPair p = until(PeerPair.start(SMALL));
    String id = PeerPair.fresh("term");
    p.announce(id, 1, 2);
    p.pull(id, 1, 2);
    p.awaitWaitingPulls(1);
    p.decoder.terminate();
    assertThat(p.decoder.awaitExit()).isEqualTo(143);
    assertThat(p.decoder.leftFiles()).isEmpty();
  }

  @Test
  void quitDuringATransferLeavesNoCrash() {
    PeerPair p = until(PeerPair.start(LARGE));
    Random random = new Random(3);
    int[] received = Blocks.scattered(4000, BLOCKS, random);
    String id = PeerPair.fresh("quit");
    p.prefill(id, Blocks.scattered(4000, BLOCKS, random));
    p.pull(id, received);
    p.awaitUnderWay(received);
    p.prefiller.send("cmd", "quit");
    p.decoder.send("cmd", "quit");
    assertThat(p.prefiller.awaitExit()).isZero();
    assertThat(p.decoder.awaitExit()).isZero();
    assertThat(p.prefiller.leftFiles()).isEmpty();
    assertThat(p.decoder.leftFiles()).isEmpty();
  }
}
