package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Engines of several ranks, whose numbers may differ, each rank a process. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class ParallelRanksTest {
  private static final Object[] SHAPE = {"--layers", 4, "--num-blocks", 64, "--block-len", 4096};

  @ParameterizedTest
  @CsvSource({"2,1,1,1", "1,2,1,1", "2,2,1,1", "1,1,2,1", "1,1,1,2"})
  void everyRankGetsItsShare(int tpFrom, int tpTo, int ppFrom, int ppTo) {
    List<PeerProcess> all = new ArrayList<>();
    try {
      List<PeerProcess> prefillers = startPrefillers(all, tpFrom, ppFrom);
      List<PeerProcess> decoders = new ArrayList<>();
      for (int tp = 0; tp < tpTo; tp++) {
        for (int pp = 0; pp < ppTo; pp++) {
          decoders.add(start(all, PeerProcess.decoder("d" + tp + pp), tp, tpTo, pp, ppTo));
        }
      }
      decoders.forEach(PeerProcess::awaitReady);
      int[] sent = {4, 5, 6, 9, 20};
      int[] received = {7, 8, 9, 1, 0};
      String id = PeerPair.fresh("ranks");
      for (PeerProcess prefiller : prefillers) {
        prefiller.send("req_id", "p-" + id, "transfer_id", id, "block_ids", sent);
      }
      for (PeerProcess decoder : decoders) {
        decoder.send(
            PeerPair.pullCommand("engine", prefillers.getFirst().bootstrap(), id, received));
      }
      for (PeerProcess decoder : decoders) {
        assertThat(
                decoder
                    .await("finished_recving", "req_id", "d-" + id)
                    .path("load_error")
                    .asBoolean())
            .as("load_error at %s", decoder)
            .isFalse();
      }
      for (PeerProcess prefiller : prefillers) {
        assertThat(prefiller.await("finished_sending", "req_id", "p-" + id).path("end").asString())
            .isEqualTo("SERVED");
      }
      int next = 0;
      for (int tp = 0; tp < tpTo; tp++) {
        for (int pp = 0; pp < ppTo; pp++) {
          PeerOptions shape = PeerPair.shape(rank(tp, tpTo, pp, ppTo));
          PeerProcess decoder = decoders.get(next++);
          assertThat(decoder.checksum(received))
              .as("what arrived at tp_rank=%s pp_rank=%s", tp, pp)
              .isEqualTo(BlockPattern.of(shape, 1).sha256(shape.layerIndices(), sent));
          assertThat(decoder.nonzero(Blocks.others(64, received))).isZero();
        }
      }
      all.forEach(PeerPair::verifyIdle);
    } finally {
      all.forEach(PeerProcess::close);
    }
  }

  private static List<PeerProcess> startPrefillers(List<PeerProcess> all, int tpSize, int ppSize) {
    List<PeerProcess> prefillers = new ArrayList<>();
    for (int tp = 0; tp < tpSize; tp++) {
      for (int pp = 0; pp < ppSize; pp++) {
        PeerProcess.Builder builder =
            PeerProcess.prefiller("p" + tp + pp).option("--engine-id", "engine");
        if (!prefillers.isEmpty()) {
          builder.option("--bootstrap-port", prefillers.getFirst().bootstrapPort());
        }
        prefillers.add(start(all, builder, tp, tpSize, pp, ppSize));
      }
    }
    prefillers.forEach(PeerProcess::awaitReady);
    return prefillers;
  }

  private static PeerProcess start(
      List<PeerProcess> all,
      PeerProcess.Builder builder,
      int tpRank,
      int tpSize,
      int ppRank,
      int ppSize) {
    PeerProcess peer = builder.options(rank(tpRank, tpSize, ppRank, ppSize)).start();
    all.add(peer);
    return peer;
  }

  private static Object[] rank(int tpRank, int tpSize, int ppRank, int ppSize) {
    List<Object> options = new ArrayList<>(List.of(SHAPE));
    options.addAll(
        List.of(
            "--tp-rank", tpRank, "--tp-size", tpSize, "--pp-rank", ppRank, "--pp-size", ppSize));
    return options.toArray();
  }
}
