package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** A server frees its KV memory while it is registered: it is told, and its process lives. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class ClosedArenaTest {
  /** Large enough for the memory to be given back to the system, so that reading it is fatal. */
  private static final Object[] SHAPE = {
    "--layers", 2, "--num-blocks", 1024, "--block-len", 65_536, "--kv-alloc", "per-layer"
  };

  @Test
  void thePrefillersTransfersFailByName() {
    try (PeerPair pair = PeerPair.start(SHAPE)) {
      String before = PeerPair.fresh("open");
      pair.prefill(before, 1, 2);
      pair.pull(before, 3, 4);
      pair.awaitReceived(before);
      pair.awaitSent(before);
      String held = PeerPair.fresh("held");
      pair.prefill(held, 1, 2);
      pair.prefiller.ask("arena_closed", "cmd", "close_arena");
      for (int i = 0; i < 5; i++) {
        pair.pull(held, 5, 6);
        fails(pair, held, "the prefiller's kv memory is gone");
      }
      assertThat(pair.decoder.nonzero(5, 6)).as("nothing was written").isZero();
      pair.prefiller.send("cmd", "let_go", "transfer_id", held);
      pair.awaitSent(held);
      pair.verifyIdle();
      assertThat(pair.prefiller.quit()).isZero();
      assertThat(pair.prefiller.leftFiles()).isEmpty();
    }
  }

  @Test
  void theDecodersPullsFailByNameAndAreNotSent() {
    try (PeerPair pair = PeerPair.start(SHAPE)) {
      String id = PeerPair.fresh("gone");
      pair.prefill(id, 1, 2);
      pair.decoder.ask("arena_closed", "cmd", "close_arena");
      pair.pull(id, 3, 4);
      assertThat(fails(pair, id, "the arena of").path("stage").asString()).isEqualTo("REQUEST");
      assertThat(pair.prefiller.state().path("leases").asInt()).as("not fetched").isEqualTo(1);
      assertThat(pair.prefiller.has("send_blocks")).isFalse();
      pair.prefiller.send("cmd", "let_go", "transfer_id", id);
      pair.awaitSent(id);
      pair.verifyIdle();
      assertThat(pair.decoder.quit()).isZero();
      assertThat(pair.decoder.leftFiles()).isEmpty();
    }
  }

  private static JsonNode fails(PeerPair pair, String id, String reason) {
    JsonNode failed = pair.awaitFailed(id);
    assertThat(failed.path("reason").asString())
        .contains(reason)
        .contains("layer=" + pair.options.layerName(0))
        .contains("is closed: keep it open");
    return failed;
  }
}
