package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.spi.DescriptorList;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * Engines of random shape, filled with bytes that know what they are: after all ranks have copied,
 * every byte of the decoder's blocks must be the one that the model says, written once, and nothing
 * else may have been touched.
 */
class PlanPropertyTest {
  /** Fewer where the test is run over and over, by mutation tests. */
  private static final int CASES = Integer.getInteger("mooncake4j.cases", 1500);

  @Test
  void everyByteOfTheDecoderIsTheModels() {
    long seed = Long.getLong("mooncake4j.seed", System.nanoTime());
    System.out.println("PlanPropertyTest: mooncake4j.seed=" + seed);
    BlockRuns runs = new BlockRuns();
    long copied = 0;
    for (int i = 0; i < CASES; i++) {
      copied += check(new ToyModel(new Random(seed + i)), "mooncake4j.seed=" + (seed + i), runs);
    }
    assertThat(copied).as("bytes checked in all").isGreaterThan(CASES * 60L);
  }

  /** Runs one request between all ranks and returns the number of bytes that were checked. */
  private static long check(ToyModel model, String seed, BlockRuns runs) {
    String what = seed + " " + model;
    long checked = 0;
    for (ToyModel.Rank decoder : model.decoder.ranks()) {
      Map<Long, Long> written = new HashMap<>();
      for (int tp :
          RankPairing.targetRanks(
              decoder.place().tpRank(), model.decoder.tpSize(), model.prefiller.tpSize())) {
        for (int pp :
            RankPairing.targetStages(
                decoder.place().ppRank(), model.decoder.ppSize(), model.prefiller.ppSize())) {
          ToyModel.Rank prefiller = model.prefiller.rank(tp, pp);
          PeerPlan plan =
              PeerPlan.prepare(
                  new LocalCache(prefiller.place(), model.spec, prefiller.regions()),
                  new PeerLayout(
                      decoder.place().tpRank(),
                      model.decoder.tpSize(),
                      model.decoder.ppSize(),
                      decoder.regions()));
          try (DescriptorList out = new DescriptorList()) {
            plan.plan(model.prefiller.ids(), model.decoder.ids(), runs, out);
            run(out, prefiller.bytes(), written, what);
          }
        }
      }
      // All that the decoder asked for has come, and the rest was padding between it.
      decoder
          .wanted()
          .forEach(
              (address, content) ->
                  assertThat(written.get(address))
                      .as("%s at %d", what, address)
                      .isEqualTo(content));
      written
          .keySet()
          .forEach(
              address ->
                  assertThat(
                          decoder.wanted().containsKey(address)
                              || decoder.padding().contains(address))
                      .as("%s: %d is not the request's", what, address)
                      .isTrue());
      checked += decoder.wanted().size();
    }
    return checked;
  }

  private static void run(
      DescriptorList list, Map<Long, Long> source, Map<Long, Long> written, String what) {
    for (int i = 0; i < list.size(); i++) {
      for (long b = 0; b < list.length(i); b++) {
        Long content = source.getOrDefault(list.source(i) + b, ToyModel.PADDING);
        Long before = written.put(list.destination(i) + b, content);
        assertThat(before).as("%s: %d written twice", what, list.destination(i) + b).isNull();
      }
    }
  }
}
