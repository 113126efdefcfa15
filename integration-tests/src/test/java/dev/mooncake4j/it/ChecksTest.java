package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The checks that are off unless somebody wants them, on the real engine. */
@Tag("two-jvms")
class ChecksTest {
  private static final int BLOCKS = 600;
  private static final Object[] SHAPE = {
    "--layers", 4, "--num-blocks", BLOCKS, "--block-len", 4096, "--seed", 5, "--num-workers", 3
  };

  private static PeerProcess.Builder prefiller() {
    return PeerProcess.prefiller("prefiller").options(SHAPE).option("--fingerprint", "toy bf16");
  }

  private static PeerProcess.Builder decoder(String fingerprint) {
    return PeerProcess.decoder("decoder " + fingerprint)
        .options(SHAPE)
        .option("--fingerprint", fingerprint)
        .option("--integrity-check", true);
  }

  @Test
  void whatArrivesIsCheckedAndAnotherModelIsRefused() {
    try (PeerPair pair = PeerPair.start(prefiller(), decoder("toy bf16"), SHAPE);
        PeerProcess other = decoder("toy fp16").startReady()) {
      Random random = new Random(7);
      for (int n : new int[] {1, 40, 300}) {
        String id = PeerPair.fresh("checked");
        int[] sent = Blocks.scattered(n, BLOCKS, random);
        int[] received = Blocks.scattered(n, BLOCKS, random);
        pair.decoder.zero();
        pair.prefill(id, sent);
        pair.pull(id, received);
        pair.awaitReceived(id);
        pair.awaitSent(id);
        pair.verify(sent, received);
      }
      assertThat(pair.decoder.errorText()).doesNotContain("gives no digest");

      String id = PeerPair.fresh("mixed");
      other.zero();
      pair.prefill(id, 1, 2);
      other.send(
          PeerPair.pullCommand(pair.prefiller.engineId(), pair.prefiller.bootstrap(), id, 3, 4));
      assertThat(PeerPair.awaitFailed(other, id).path("reason").asString())
          .contains("kv_cache_fingerprint=toy fp16")
          .contains("kv_cache_fingerprint=toy bf16");
      assertThat(other.nonzero(Blocks.contiguous(0, BLOCKS))).isZero();
      pair.decoder.zero();
      pair.pull(id, 3, 4);
      pair.awaitReceived(id);
      pair.verify(new int[] {1, 2}, new int[] {3, 4});
      pair.verifyIdle();
    }
  }
}
