package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/**
 * Two JVMs on the real engine, and a prefill whose blocks hold zeros until each is told as
 * finished: one that is written before that arrives wrong.
 */
class SendWhilePrefillTest {
  private static final int BLOCK_TOKENS = 16;
  private static final Object[] SHAPE = {"--layers", 4, "--num-blocks", 400, "--head-dim", 32};
  private static final PeerOptions OPTIONS = PeerPair.shape(SHAPE);

  private static PeerPair pair;

  @BeforeAll
  static void start() {
    pair =
        PeerPair.start(
            PeerProcess.prefiller("prefiller").options(SHAPE).option("--send-while-prefill", true),
            PeerProcess.decoder("decoder").options(SHAPE),
            SHAPE);
  }

  @AfterAll
  static void stop() {
    pair.close();
  }

  @AfterEach
  void clean() {
    pair.verifyIdle();
    pair.decoder.zero();
  }

  private static void progress(String transferId, int blocks) {
    pair.prefiller.send(
        "cmd",
        "progress",
        "req_id",
        "p-" + transferId,
        "finished_tokens",
        blocks * BLOCK_TOKENS,
        "fill",
        OPTIONS.seed());
    pair.prefiller.await("progressed", "req_id", "p-" + transferId);
  }

  private static void awaitTouched(int... blocks) {
    Awaitility.await()
        .atMost(PeerProcess.SOON)
        .pollInterval(Duration.ofMillis(5))
        .until(() -> pair.decoder.touched(blocks) == blocks.length * OPTIONS.layers());
  }

  @Test
  void everyBlockArrivesFinishedAndTheFirstOnesBeforeThePrefillEnds() {
    String id = PeerPair.fresh("early");
    int[] sent = Blocks.contiguous(0, 64);
    int[] received = Blocks.contiguous(100, 64);
    pair.prefiller.zero();
    pair.announce(id, sent);
    pair.pull(id, received);
    pair.awaitWaitingPulls(1);
    for (int finished = 8; finished <= 56; finished += 8) {
      progress(id, finished);
      awaitTouched(Blocks.contiguous(100, finished));
    }
    assertThat(pair.decoder.has("finished_recving")).isFalse();
    assertThat(pair.decoder.nonzero(Blocks.contiguous(156, 8))).as("unfinished blocks").isZero();
    progress(id, 64);
    pair.finishPrefill(id);
    pair.awaitReceived(id);
    assertThat(pair.awaitSent(id)).isEqualTo("SERVED");
    pair.verify(sent, received);
  }

  @Test
  void aDecoderThatComesLateOrHasThePrefixGetsItsBlocks() {
    String id = PeerPair.fresh("late");
    int[] sent = Blocks.contiguous(0, 64);
    int[] received = Blocks.contiguous(100, 40);
    pair.prefiller.zero();
    pair.announce(id, sent);
    progress(id, 48);
    pair.pull(id, received);
    awaitTouched(Blocks.contiguous(100, 24));
    progress(id, 64);
    pair.finishPrefill(id);
    pair.awaitReceived(id);
    pair.awaitSent(id);
    pair.verify(Blocks.contiguous(24, 40), received);
  }

  @Test
  void anAbortedPrefillFailsTheDecoderAndNamesItsBlocks() {
    String id = PeerPair.fresh("aborted");
    pair.announce(id, Blocks.contiguous(0, 64));
    pair.pull(id, Blocks.contiguous(100, 64));
    pair.awaitWaitingPulls(1);
    progress(id, 32);
    pair.prefiller.send("cmd", "abort", "req_id", "p-" + id);
    JsonNode aborted = pair.prefiller.await("aborted", "req_id", "p-" + id);
    assertThat(aborted.path("delay_free").asBoolean()).as("the blocks may be read").isTrue();
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("reason").asString()).contains("the prefill was aborted");
    assertThat(failed.path("quiet").asBoolean()).isTrue();
    assertThat(pair.awaitSent(id)).isEqualTo("RELEASED");
  }

  @Test
  void aPlayedPrefillTellsWhenItEnded() {
    String id = PeerPair.fresh("played");
    int[] sent = Blocks.contiguous(0, 64);
    int[] received = Blocks.contiguous(100, 64);
    pair.prefiller.ask("filled", "cmd", "fill", "seed", OPTIONS.seed());
    pair.pull(id, received);
    pair.awaitWaitingPulls(1);
    pair.prefiller.send(
        "cmd",
        "play",
        "req_id",
        "p-" + id,
        "transfer_id",
        id,
        "block_ids",
        sent,
        "chunks",
        8,
        "pause_us",
        2000);
    long ended = pair.prefiller.await("prefill_ended", "req_id", "p-" + id).path("at_ns").asLong();
    long arrivedAt = pair.awaitReceived(id).path("at_ns").asLong();
    assertThat(arrivedAt).as("one clock").isGreaterThan(ended);
    pair.awaitSent(id);
    pair.verify(sent, received);
  }
}
