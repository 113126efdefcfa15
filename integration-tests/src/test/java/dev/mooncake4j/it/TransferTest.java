package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** What a healthy pair does, request by request, with every byte looked at. */
@Tag("two-jvms")
class TransferTest {
  private static final int BLOCKS = 2400;
  private static final int LAYERS = 4;
  private static final Random RANDOM = new Random(20261129);

  private static PeerPair pair;

  @BeforeAll
  static void start() {
    pair =
        PeerPair.start(
            "--layers", LAYERS, "--num-blocks", BLOCKS, "--block-len", 4096, "--seed", 3);
  }

  @AfterAll
  static void stop() {
    pair.close();
  }

  @BeforeEach
  void clean() {
    pair.decoder.zero();
    pair.prefiller.forgetEvents();
    pair.decoder.forgetEvents();
  }

  @AfterEach
  void nothingIsLeft() {
    pair.verifyIdle();
  }

  @ParameterizedTest
  @CsvSource({
    "1,false,false",
    "1,true,true",
    "64,false,true",
    "64,true,false",
    "1000,false,false",
    "1000,true,true",
    "1000,true,false"
  })
  void blocksArrive(int n, boolean scattered, boolean decoderFirst) {
    int[] sent = scattered ? Blocks.scattered(n, BLOCKS, RANDOM) : Blocks.contiguous(700, n);
    int[] received = scattered ? Blocks.scattered(n, BLOCKS, RANDOM) : Blocks.contiguous(11, n);
    String id = PeerPair.fresh("blocks");
    if (decoderFirst) {
      pair.pull(id, received);
      pair.awaitWaitingPulls(1);
      pair.prefill(id, sent);
    } else {
      pair.prefill(id, sent);
      pair.pull(id, received);
    }
    pair.awaitReceived(id);
    assertThat(pair.awaitSent(id)).isEqualTo("SERVED");
    pair.verify(sent, received);
    JsonNode write = pair.prefiller.await("send_blocks");
    assertThat(write.path("bytes").asLong()).isEqualTo((long) n * LAYERS * 4096);
    assertThat(write.path("num_descs").asInt())
        .as("descriptors, neighbours merged")
        .isEqualTo(scattered ? n * LAYERS : LAYERS);
  }

  @Test
  void contiguousBlocksArriveScattered() {
    int[] sent = Blocks.contiguous(100, 50);
    int[] received = Blocks.scattered(50, BLOCKS, RANDOM);
    String id = PeerPair.fresh("spread");
    pair.prefill(id, sent);
    pair.pull(id, received);
    pair.awaitReceived(id);
    pair.verify(sent, received);
    pair.awaitSent(id);
  }

  @Test
  void pullAfterTheAnnouncementAndBeforeTheEndOfThePrefill() {
    int[] blocks = Blocks.contiguous(5, 8);
    String id = PeerPair.fresh("during");
    pair.announce(id, blocks);
    pair.pull(id, blocks);
    pair.awaitWaitingPulls(1);
    assertThat(pair.decoder.nonzero(blocks)).as("blocks before the prefill has ended").isZero();
    pair.finishPrefill(id);
    pair.awaitReceived(id);
    pair.verify(blocks, blocks);
    pair.awaitSent(id);
  }

  @Test
  void prefillThatEndsByAStopTokenIsSent() {
    int[] blocks = Blocks.contiguous(40, 3);
    String id = PeerPair.fresh("stop");
    pair.announce(id, blocks);
    pair.prefiller.send("cmd", "finish", "req_id", "p-" + id, "reason", "STOP");
    pair.prefiller.await("finished", "req_id", "p-" + id);
    pair.pull(id, blocks);
    pair.awaitReceived(id);
    pair.verify(blocks, blocks);
    pair.awaitSent(id);
  }

  @Test
  void requestsOfOnePullAreToldAsTheyGetReady() {
    String first = PeerPair.fresh("batch");
    String second = PeerPair.fresh("batch");
    String late = PeerPair.fresh("batch");
    int[] a = Blocks.contiguous(0, 10);
    int[] b = Blocks.contiguous(100, 20);
    int[] c = Blocks.contiguous(200, 30);
    pair.prefill(first, a);
    pair.announce(late, c);
    pair.pullBatch(
        List.of(
            pair.pullCommand(first, a), pair.pullCommand(late, c), pair.pullCommand(second, b)));
    pair.awaitReceived(first);
    pair.prefill(second, b);
    pair.awaitReceived(second);
    assertThat(pair.decoder.has("finished_recving", "req_id", "d-" + late)).isFalse();
    assertThat(pair.decoder.nonzero(c)).isZero();
    pair.finishPrefill(late);
    pair.awaitReceived(late);
    List.of(first, second, late).forEach(pair::awaitSent);
    assertThat(pair.decoder.checksum(c)).isEqualTo(pair.expected(c));
    assertThat(pair.decoder.checksum(b)).isEqualTo(pair.expected(b));
    assertThat(pair.decoder.checksum(a)).isEqualTo(pair.expected(a));
  }

  @Test
  void onePullOfManyRequests() {
    int requests = 40;
    List<String> ids =
        java.util.stream.IntStream.range(0, requests)
            .mapToObj(i -> PeerPair.fresh("many"))
            .toList();
    int[] sent = Blocks.scattered(requests * 4, BLOCKS, RANDOM);
    int[] received = Blocks.scattered(requests * 4, BLOCKS, RANDOM);
    List<Map<String, Object>> pulls = new java.util.ArrayList<>();
    for (int i = 0; i < requests; i++) {
      pair.prefill(ids.get(i), Blocks.part(4 * i, 4, sent));
      pulls.add(pair.pullCommand(ids.get(i), Blocks.part(4 * i, 4, received)));
    }
    pair.pullBatch(pulls);
    ids.forEach(pair::awaitReceived);
    ids.forEach(pair::awaitSent);
    pair.verify(sent, received);
  }

  @Test
  void aPrefixFoundHereIsNotFetched() {
    int[] held = Blocks.scattered(20, BLOCKS, RANDOM);
    int[] asked = Blocks.scattered(7, BLOCKS, RANDOM);
    String id = PeerPair.fresh("prefix");
    pair.prefill(id, held);
    Map<String, Object> pull = pair.pullCommand(id, asked);
    pull.put("cached_blocks", 13);
    pair.decoder.send(pull);
    pair.decoder.await("pulling");
    pair.awaitReceived(id);
    assertThat(pair.awaitSent(id)).isEqualTo("SERVED");
    pair.verify(Blocks.last(7, held), asked);
  }

  @Test
  void whenAllIsCachedThePrefillersBlocksAreLetGo() {
    String id = PeerPair.fresh("cached");
    pair.prefill(id, 1, 2, 3);
    Map<String, Object> pull = pair.pullCommand(id);
    pull.put("cached_blocks", 3);
    pair.decoder.send(pull);
    pair.decoder.await("pulling");
    assertThat(pair.awaitSent(id)).isIn("SERVED", "RELEASED");
    assertThat(pair.decoder.nonzero(1, 2, 3)).isZero();
    assertThat(pair.decoder.has("finished_recving", "req_id", "d-" + id)).isFalse();
  }

  @Test
  void aRequestThatWasNeverScheduledLetsThePrefillersBlocksGo() {
    String id = PeerPair.fresh("release");
    pair.prefill(id, 1, 2, 3);
    Map<String, Object> release = pair.pullCommand(id);
    release.put("cmd", "release");
    pair.decoder.send(release);
    pair.decoder.await("released", "req_id", "d-" + id);
    assertThat(pair.awaitSent(id)).isIn("SERVED", "RELEASED");
    assertThat(pair.decoder.has("finished_recving", "req_id", "d-" + id)).isFalse();
  }

  @Test
  void moreThanHeldIsRefusedAndFewerArriveAfterwards() {
    int[] held = Blocks.contiguous(60, 4);
    int[] asked = Blocks.contiguous(30, 6);
    String id = PeerPair.fresh("more");
    pair.prefill(id, held);
    pair.pull(id, asked);
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("stage").asString()).isEqualTo("PLAN");
    assertThat(failed.path("reason").asString()).contains("4").contains("6");
    assertThat(failed.path("blocks").asInt()).isEqualTo(6);
    assertThat(pair.decoder.nonzero(asked)).as("nothing was written").isZero();

    int[] fewer = Blocks.contiguous(30, 4);
    pair.pull(id, fewer);
    pair.awaitReceived(id);
    assertThat(pair.awaitSent(id)).isEqualTo("SERVED");
    pair.verify(held, fewer);
  }

  @Test
  void aSecondPullOfAFetchedTransferFailsAtOnce() {
    int[] blocks = Blocks.contiguous(70, 4);
    String id = PeerPair.fresh("twice");
    pair.prefill(id, blocks);
    pair.pull(id, blocks);
    pair.awaitReceived(id);
    pair.awaitSent(id);
    pair.pull(id, blocks);
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("stage").asString()).isEqualTo("PREFILL");
    assertThat(failed.path("reason").asString()).contains(id).contains("fetched already");
  }

  @Test
  void aPrefillGivenUpIsToldToADecoderThatWaits() {
    String id = PeerPair.fresh("abort");
    pair.announce(id, 1, 2);
    pair.pull(id, 1, 2);
    pair.awaitWaitingPulls(1);
    pair.prefiller.send("cmd", "abort", "req_id", "p-" + id);
    assertThat(pair.prefiller.await("aborted").path("delay_free").asBoolean()).isFalse();
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("stage").asString()).isEqualTo("PREFILL");
    assertThat(failed.path("reason").asString()).contains("given up");
  }

  @Test
  void aPrefillGivenUpIsToldToADecoderThatComesLater() {
    String id = PeerPair.fresh("aborted");
    pair.announce(id, 1, 2);
    pair.prefiller.send("cmd", "abort", "req_id", "p-" + id);
    pair.prefiller.await("aborted");
    pair.pull(id, 1, 2);
    assertThat(pair.awaitFailed(id).path("reason").asString()).contains("given up");
  }

  @Test
  void aDecoderThatGivesUpWhileItWaitsIsToldAndFreesThePrefill() {
    String id = PeerPair.fresh("leave");
    pair.announce(id, 1, 2);
    pair.pull(id, 1, 2);
    pair.awaitWaitingPulls(1);
    pair.decoder.send("cmd", "abort", "req_id", "d-" + id);
    assertThat(pair.decoder.await("aborted").path("delay_free").asBoolean()).isTrue();
    assertThat(pair.awaitFailed(id).path("stage").asString()).isEqualTo("ABORTED");
    pair.awaitWaitingPulls(0);
    pair.finishPrefill(id);
    assertThat(pair.awaitSent(id)).isEqualTo("RELEASED");
    assertThat(pair.decoder.nonzero(1, 2)).isZero();
  }

  @Test
  void aRouterLetsATransferGo() {
    String id = PeerPair.fresh("router");
    pair.prefill(id, 1, 2);
    pair.prefiller.send("cmd", "let_go", "transfer_id", id);
    assertThat(pair.awaitSent(id)).isEqualTo("RELEASED");
    pair.pull(id, 1, 2);
    assertThat(pair.awaitFailed(id).path("reason").asString()).contains("released");
  }

  @Test
  void anEngineThatIsNotThereFailsAtOnce() {
    String id = PeerPair.fresh("nobody");
    pair.decoder.send(PeerPair.pullCommand("nobody", pair.prefiller.bootstrap(), id, 1));
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("stage").asString()).isEqualTo("BOOTSTRAP");
    assertThat(failed.path("reason").asString())
        .contains("nobody")
        .contains(pair.prefiller.engineId());
  }

  @Test
  void blockIdsBeyondTheCacheAreRefusedHere() {
    String id = PeerPair.fresh("beyond");
    pair.prefill(id, 1, 2);
    pair.pull(id, 5, BLOCKS);
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("stage").asString()).isEqualTo("REQUEST");
    assertThat(failed.path("reason").asString()).contains(String.valueOf(BLOCKS));
    pair.pull(id, 5, 6);
    pair.awaitReceived(id);
    pair.verify(new int[] {1, 2}, new int[] {5, 6});
    pair.awaitSent(id);
  }

  @Test
  void blockIdsBeyondThePrefillersCacheAreRefusedThere() {
    String id = PeerPair.fresh("wild");
    pair.prefill(id, 1, BLOCKS + 5);
    pair.pull(id, 5, 6);
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("reason").asString()).contains(String.valueOf(BLOCKS + 5));
    assertThat(pair.decoder.nonzero(5, 6)).isZero();
    pair.prefiller.send("cmd", "let_go", "transfer_id", id);
    pair.awaitSent(id);
  }

  @Test
  void sleepAndWake() {
    String before = PeerPair.fresh("sleep");
    pair.prefill(before, 1, 2);
    pair.pull(before, 3, 4);
    pair.awaitReceived(before);
    pair.awaitSent(before);
    for (PeerProcess peer : List.of(pair.prefiller, pair.decoder)) {
      peer.ask("asleep", "cmd", "sleep");
      assertThat(peer.state().path("registered_bytes").asLong(-1)).isZero();
    }
    String asleep = PeerPair.fresh("asleep");
    pair.pull(asleep, 3, 4);
    assertThat(pair.awaitFailed(asleep).path("reason").asString()).contains("registered");
    pair.prefiller.ask("awake", "cmd", "wake");
    pair.decoder.ask("awake", "cmd", "wake");
    pair.decoder.zero();
    String after = PeerPair.fresh("awake");
    pair.prefill(after, 7, 8);
    pair.pull(after, 5, 9);
    pair.awaitReceived(after);
    pair.awaitSent(after);
    pair.verify(new int[] {7, 8}, new int[] {5, 9});
  }
}
