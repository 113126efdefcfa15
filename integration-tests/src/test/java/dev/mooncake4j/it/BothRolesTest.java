package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Two peers that each prefill and decode. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class BothRolesTest {
  private static final Object[] SHAPE = {"--layers", 3, "--num-blocks", 128, "--block-len", 4096};

  @Test
  void bothWaysAtOnce() {
    try (PeerProcess a = PeerProcess.both("a").options(SHAPE).option("--seed", 1).startReady();
        PeerProcess b = PeerProcess.both("b").options(SHAPE).option("--seed", 2).startReady()) {
      int[] sent = Blocks.contiguous(0, 20);
      int[] received = Blocks.contiguous(64, 20);
      for (int round = 0; round < 3; round++) {
        String there = PeerPair.fresh("there");
        String back = PeerPair.fresh("back");
        a.send("req_id", "p-" + there, "transfer_id", there, "block_ids", sent);
        b.send("req_id", "p-" + back, "transfer_id", back, "block_ids", sent);
        b.send(PeerPair.pullCommand(a.engineId(), a.bootstrap(), there, received));
        a.send(PeerPair.pullCommand(b.engineId(), b.bootstrap(), back, received));
        receivedWell(b, there);
        receivedWell(a, back);
        a.await("finished_sending", "req_id", "p-" + there);
        b.await("finished_sending", "req_id", "p-" + back);
      }
      PeerOptions shape = PeerPair.shape(SHAPE);
      assertThat(b.checksum(received))
          .isEqualTo(BlockPattern.of(shape, 1).sha256(shape.layerIndices(), sent));
      assertThat(a.checksum(received))
          .isEqualTo(BlockPattern.of(shape, 2).sha256(shape.layerIndices(), sent));
      PeerPair.verifyIdle(a);
      PeerPair.verifyIdle(b);
      assertThat(a.quit()).isZero();
      assertThat(b.quit()).isZero();
    }
  }

  private static void receivedWell(PeerProcess peer, String id) {
    assertThat(peer.await("finished_recving", "req_id", "d-" + id).path("load_error").asBoolean())
        .isFalse();
  }
}
