package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** A prefiller with a shared secret, and decoders that have it, have another, or have none. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class SharedSecretTest {
  private static final String VARIABLE = "MOONCAKE4J_SHARED_SECRET";
  private static final String SECRET = "correct-horse-battery";
  private static final Object[] SHAPE = {"--layers", 2, "--num-blocks", 64, "--block-len", 4096};

  private static PeerProcess.Builder decoder(String name) {
    return PeerProcess.decoder(name).options(SHAPE);
  }

  @Test
  void onlyWhoHasItFetchesAndTheOthersAreToldInSeconds() {
    try (PeerProcess prefiller =
            PeerProcess.prefiller("prefiller")
                .options(SHAPE)
                .environment(VARIABLE, SECRET)
                .startReady();
        PeerProcess wrong =
            decoder("wrong").environment(VARIABLE, "another-horse-battery").startReady();
        PeerProcess none = decoder("none").startReady();
        PeerProcess right = decoder("right").environment(VARIABLE, SECRET).startReady()) {
      String id = PeerPair.fresh("guarded");
      prefiller.send("req_id", "p-" + id, "transfer_id", id, "block_ids", new int[] {1, 2});
      for (PeerProcess stranger : new PeerProcess[] {wrong, none}) {
        stranger.send(PeerPair.pullCommand(prefiller.engineId(), prefiller.bootstrap(), id, 3, 4));
        JsonNode failed = PeerPair.awaitFailed(stranger, id);
        assertThat(failed.path("stage").asString()).isEqualTo("BOOTSTRAP");
        assertThat(failed.path("reason").asString()).contains("401", "shared_secret");
        assertThat(failed.path("quiet").asBoolean()).isTrue();
        assertThat(failed.path("seconds").asDouble())
            .as("one attempt, and no wait for any timeout of the connector's")
            .isLessThan(15);
        assertThat(stranger.nonzero(3, 4)).isZero();
        PeerPair.verifyIdle(stranger);
      }
      right.send(PeerPair.pullCommand(prefiller.engineId(), prefiller.bootstrap(), id, 3, 4));
      JsonNode event = right.await("finished_recving", "req_id", "d-" + id);
      assertThat(event.path("load_error").asBoolean()).isFalse();
      assertThat(right.checksum(3, 4)).isEqualTo(prefiller.checksum(1, 2));
      prefiller.await("finished_sending", "req_id", "p-" + id);
      PeerPair.verifyIdle(prefiller);
      for (PeerProcess peer : new PeerProcess[] {prefiller, wrong, none, right}) {
        assertThat(peer.quit()).isZero();
        assertThat(peer.errorText()).doesNotContain("horse");
      }
    }
  }
}
