package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.spi.DescriptorList;
import java.util.Arrays;
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
            planInPieces(model, plan, runs, out, what);
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

  /** The blocks as those of several requests that are planned together: the same bytes move. */
  private static void planInPieces(
      ToyModel model, PeerPlan plan, BlockRuns runs, DescriptorList whole, String what) {
    BlockIds local = model.prefiller.ids();
    BlockIds remote = model.decoder.ids();
    if (remote.isEmpty()) {
      return;
    }
    Random random = new Random(what.hashCode());
    BlockIds[] locals = new BlockIds[1 + random.nextInt(3)];
    BlockIds[] remotes = new BlockIds[locals.length];
    int[][] localRest = toArrays(local);
    int[][] remoteRest = toArrays(remote);
    for (int i = 0; i < locals.length; i++) {
      int[][] localPiece = new int[localRest.length][];
      int[][] remotePiece = new int[localRest.length][];
      for (int g = 0; g < localRest.length; g++) {
        boolean skipNull = model.spec.groups().get(g).kind() == KvCacheGroup.Kind.MAMBA;
        boolean last = i == locals.length - 1;
        int cut = last ? remoteRest[g].length : random.nextInt(remoteRest[g].length + 1);
        int left = blocks(remoteRest[g], cut, skipNull);
        int localCut = last ? localRest[g].length : beforeLast(left, localRest[g], skipNull);
        remotePiece[g] = Arrays.copyOf(remoteRest[g], cut);
        remoteRest[g] = Arrays.copyOfRange(remoteRest[g], cut, remoteRest[g].length);
        localPiece[g] = Arrays.copyOf(localRest[g], localCut);
        localRest[g] = Arrays.copyOfRange(localRest[g], localCut, localRest[g].length);
      }
      locals[i] = BlockIds.ofGroups(localPiece);
      remotes[i] = BlockIds.ofGroups(remotePiece);
    }
    try (DescriptorList out = new DescriptorList()) {
      plan.plan(locals, remotes, runs, out);
      assertThat(moves(out)).as(what).isEqualTo(moves(whole));
      assertThat(out.size())
          .as("%s: no more copies than for one request", what)
          .isLessThanOrEqualTo(whole.size());
      long bytes = 0;
      for (BlockIds ids : remotes) {
        bytes += plan.bytes(ids);
      }
      assertThat(bytes).as(what).isEqualTo(out.bytes());
    }
  }

  private static int[][] toArrays(BlockIds ids) {
    int[][] arrays = new int[ids.groupCount()][];
    for (int g = 0; g < arrays.length; g++) {
      arrays[g] = ids.toArray(g);
    }
    return arrays;
  }

  /** Blocks from an index on. */
  private static int blocks(int[] ids, int from, boolean skipNull) {
    int blocks = 0;
    for (int i = from; i < ids.length; i++) {
      blocks += skipNull && ids[i] == 0 ? 0 : 1;
    }
    return blocks;
  }

  /** The index from which on there are so many blocks. */
  private static int beforeLast(int blocks, int[] ids, boolean skipNull) {
    int at = ids.length;
    while (blocks(ids, at, skipNull) < blocks) {
      at--;
    }
    return at;
  }

  /** For each byte's destination its source. */
  private static Map<Long, Long> moves(DescriptorList list) {
    Map<Long, Long> moves = new HashMap<>();
    for (int i = 0; i < list.size(); i++) {
      for (long b = 0; b < list.length(i); b++) {
        moves.put(list.destination(i) + b, list.source(i) + b);
      }
    }
    return moves;
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
