package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** Two hundred requests, good and bad, leave nothing behind. */
@Tag("two-jvms")
@Timeout(value = 180, unit = TimeUnit.SECONDS)
class LeakTest {
  private static final int BLOCKS = 256;
  private static final int AT_ONCE = 10;

  @Test
  void twoHundredRequests() {
    long seed = 5;
    Random random = new Random(seed);
    try (PeerPair pair =
        PeerPair.start("--layers", 2, "--num-blocks", BLOCKS, "--block-len", 2048)) {
      for (int round = 0; round < 5; round++) {
        round(pair, random);
      }
      pair.verifyIdle();
      JsonNode prefillerBefore = pair.prefiller.state();
      JsonNode decoderBefore = pair.decoder.state();
      for (int round = 0; round < 20; round++) {
        round(pair, random);
      }
      pair.verifyIdle();
      compare(prefillerBefore, pair.prefiller.state());
      compare(decoderBefore, pair.decoder.state());
      assertThat(pair.prefiller.quit()).isZero();
      assertThat(pair.decoder.quit()).isZero();
    }
  }

  private static void compare(JsonNode before, JsonNode after) {
    assertThat(after.path("fds").asInt())
        .as("file descriptors")
        .isLessThanOrEqualTo(before.path("fds").asInt() + 4);
    assertThat(after.path("threads").asInt())
        .as("threads: %s, before %s", after.path("thread_names"), before.path("thread_names"))
        .isLessThanOrEqualTo(before.path("threads").asInt() + 4);
    assertThat(after.path("registered_bytes").asLong())
        .isEqualTo(before.path("registered_bytes").asLong());
  }

  /** Ten requests at once: six well, one aborted by each side, one for too much, one released. */
  private static void round(PeerPair pair, Random random) {
    int[] sent = Blocks.scattered(8 * AT_ONCE, BLOCKS, random);
    int[] received = Blocks.scattered(8 * AT_ONCE, BLOCKS, random);
    List<String> ids = new ArrayList<>();
    for (int i = 0; i < AT_ONCE; i++) {
      ids.add(PeerPair.fresh("leak"));
    }
    for (int i = 0; i < AT_ONCE; i++) {
      String id = ids.get(i);
      int[] from = Blocks.part(8 * i, 8, sent);
      int[] to = Blocks.part(8 * i, 8, received);
      switch (i) {
        case 0, 1 -> {
          pair.announce(id, from);
          pair.pull(id, to);
        }
        case 2 -> {
          pair.prefill(id, Blocks.part(0, 4, from));
          pair.pull(id, to);
        }
        case 3 -> {
          pair.prefill(id, from);
          pair.decoder.send(
              "cmd",
              "release",
              "req_id",
              "d-" + id,
              "transfer_id",
              id,
              "remote_engine_id",
              pair.prefiller.engineId(),
              "remote_bootstrap_addr",
              pair.prefiller.bootstrap());
          pair.decoder.await("released", "req_id", "d-" + id);
        }
        default -> {
          pair.prefill(id, from);
          pair.pull(id, to);
        }
      }
    }
    pair.prefiller.send("cmd", "abort", "req_id", "p-" + ids.get(0));
    pair.prefiller.await("aborted");
    pair.decoder.send("cmd", "abort", "req_id", "d-" + ids.get(1));
    pair.decoder.await("aborted");
    pair.awaitFailed(ids.get(0));
    pair.awaitFailed(ids.get(1));
    pair.awaitFailed(ids.get(2));
    pair.finishPrefill(ids.get(1));
    pair.prefiller.send("cmd", "let_go", "transfer_id", ids.get(2));
    for (int i = 1; i < AT_ONCE; i++) {
      if (i > 3) {
        pair.awaitReceived(ids.get(i));
      }
      pair.awaitSent(ids.get(i));
    }
    int[] well = Blocks.part(32, 48, sent);
    assertThat(pair.decoder.checksum(Blocks.part(32, 48, received))).isEqualTo(pair.expected(well));
  }
}
