package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.DescriptorList;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Slices of shared rows: what is joined, and what must not be. */
class RegionMergeTest {
  private static final long HERE = 1L << 40;
  private static final long THERE = 1L << 44;

  private static List<TransferRegion> row(long base, long rowLen, long slice, long... offsets) {
    List<TransferRegion> regions = new ArrayList<>();
    for (int i = 0; i < offsets.length; i++) {
      regions.add(
          new TransferRegion(
              "layers." + i, i, base + offsets[i], rowLen, slice, 0, List.of(0), offsets[i], 16));
    }
    return regions;
  }

  private static ByteMap copies(List<TransferRegion> local, List<TransferRegion> remote) {
    return copies(local, new PeerLayout(0, 1, 1, remote), RankLayout.single());
  }

  private static ByteMap copies(List<TransferRegion> local, PeerLayout remote, RankLayout rank) {
    PeerPlan plan =
        PeerPlan.prepare(new LocalCache(rank, KvCacheSpec.fullAttention(16), local), remote);
    try (DescriptorList out = new DescriptorList()) {
      plan.plan(BlockIds.of(2, 3), BlockIds.of(5, 6), new BlockRuns(), out);
      ByteMap map = ByteMap.of(out);
      assertThat(map.overlaps()).isFalse();
      return map;
    }
  }

  private static ByteMap.Interval copy(long source, long destination, long length) {
    return new ByteMap.Interval(THERE + destination, HERE + source, length);
  }

  @Test
  void rowsThatAreCutAlikeAreCopiedWhole() {
    assertThat(
            copies(row(HERE, 8192, 2048, 0, 2048, 4608), row(THERE, 8192, 2048, 0, 2048, 4608))
                .intervals())
        .containsExactly(copy(2 * 8192, 5 * 8192, 2 * 8192));
  }

  @Test
  void slicesInAnotherOrderAreCopiedOnceWithTheirRow() {
    assertThat(
            copies(row(HERE, 8192, 2048, 4096, 0, 2048), row(THERE, 8192, 2048, 4096, 0, 2048))
                .bytes())
        .isEqualTo(2 * 8192);
  }

  @Test
  void slicesAtOtherDistancesKeepTheirPlaces() {
    // vLLM's rule joins all three: their order is the same and lengths happen to agree.
    List<TransferRegion> local = row(HERE, 8192, 1024, 0, 2048, 4096);
    List<TransferRegion> remote = row(THERE, 8192, 1024, 0, 1024, 4096);
    AlignedRegions merged =
        RegionAlignment.merge(RegionAlignment.align(local, remote, false), false);
    assertThat(merged.local()).hasSize(1);
    assertThat(merged.local().getFirst().kvBlockLen())
        .isEqualTo(merged.remote().getFirst().kvBlockLen());

    assertThat(copies(local, remote).intervals())
        .containsExactlyInAnyOrder(
            copy(2 * 8192, 5 * 8192, 1024),
            copy(3 * 8192, 6 * 8192, 1024),
            copy(2 * 8192 + 2048, 5 * 8192 + 1024, 1024),
            copy(3 * 8192 + 2048, 6 * 8192 + 1024, 1024),
            copy(2 * 8192 + 4096, 5 * 8192 + 4096, 1024),
            copy(3 * 8192 + 4096, 6 * 8192 + 4096, 1024));
  }

  @Test
  void aGapThatIsAnotherStagesLayerIsNotOverwritten() {
    List<TransferRegion> local = row(HERE, 8192, 1024, 0, 2048);
    List<TransferRegion> remote = new ArrayList<>(row(THERE, 8192, 1024, 0, 2048));
    remote.add(
        new TransferRegion("layers.9", 9, THERE + 1024, 8192, 1024, 0, List.of(0), 1024, 16));
    assertThat(
            copies(local, new PeerLayout(0, 1, 1, remote), new RankLayout(0, 1, 0, 2, 0)).bytes())
        .isEqualTo(2 * 2 * 1024);
  }

  @Test
  void slicesThatTouchAreJoinedBetweenPipelines() {
    List<TransferRegion> local = row(HERE, 8192, 1024, 0, 1024);
    List<TransferRegion> remote = row(THERE, 8192, 1024, 0, 1024, 2048);
    assertThat(
            copies(local, new PeerLayout(0, 1, 1, remote), new RankLayout(0, 1, 0, 2, 0))
                .intervals())
        .containsExactlyInAnyOrder(copy(2 * 8192, 5 * 8192, 2048), copy(3 * 8192, 6 * 8192, 2048));
  }

  @Test
  void regionsOfThisProcess() {
    KvMemory memory = KvMemory.device(HERE, 4 * 8192, "cuda:0");
    KvCacheRegion slice =
        new KvCacheRegion("a", 3, 1, memory, 2048, 8192, 1024, 4, List.of(), 2048);
    assertThat(TransferRegion.of(slice))
        .isEqualTo(new TransferRegion("a", 3, HERE + 2048, 8192, 1024, 1, List.of(1), 2048, 4));
    KvCacheRegion shared =
        new KvCacheRegion("a", 3, 1, memory, 2048, 8192, 1024, 4, List.of(1, 2), -1);
    assertThat(TransferRegion.of(shared))
        .isEqualTo(
            new TransferRegion(
                "a", 3, HERE + 2048, 8192, 1024, TransferRegion.SHARED, List.of(1, 2), -1, 4));
  }

  @Test
  void aRowOffsetIsHeldBackWhereTheLastRowIsCutShort() {
    KvMemory memory = KvMemory.device(HERE, 4 * 8192 - 1, "cuda:0");
    KvCacheRegion slice = new KvCacheRegion("a", 0, 0, memory, 0, 8192, 1024, 4, List.of(), 0);
    assertThat(TransferRegion.of(slice).rowOffset()).isEqualTo(-1);
    // A first row that would begin before the memory.
    KvCacheRegion outside = new KvCacheRegion("a", 0, 0, memory, 0, 8192, 1024, 3, List.of(), 64);
    assertThat(TransferRegion.of(outside).rowOffset()).isEqualTo(-1);
  }

  private static TransferRegion slice(
      int layer, long offset, int group, List<Integer> shared, long rowOffset, long blockCount) {
    return new TransferRegion(
        "layers." + layer, layer, offset, 8192, 1024, group, shared, rowOffset, blockCount);
  }

  private static int joined(TransferRegion... regions) {
    List<TransferRegion> list = List.of(regions);
    return RegionAlignment.mergeInStep(new AlignedRegions(list, list), true).size();
  }

  @Test
  void slicesOfOneRowAndOneSetOfGroupsAreJoined() {
    TransferRegion first = slice(0, HERE, 0, List.of(0), 0, 16);
    assertThat(joined(first, slice(1, HERE + 1024, 0, List.of(0), 1024, 16))).isEqualTo(1);
    assertThat(joined(first, slice(1, HERE + 1024, 1, List.of(0), 1024, 16))).isEqualTo(2);
    assertThat(joined(first, slice(1, HERE + 1024, 0, List.of(1), 1024, 16))).isEqualTo(2);
    // Ids are checked against the first slice's count alone.
    assertThat(joined(first, slice(1, HERE + 1024, 0, List.of(0), 1024, 15))).isEqualTo(2);
    // Past the end of the first row.
    assertThat(joined(first, slice(1, HERE + 8192, 0, List.of(0), 0, 16))).isEqualTo(2);
    assertThat(joined(first, slice(1, HERE + 7169, 0, List.of(0), 7169, 16))).isEqualTo(2);
  }

  @Test
  void whatLiesBetweenIsPaddingOnlyInToldRows() {
    TransferRegion told = slice(0, HERE, 0, List.of(0), 0, 16);
    TransferRegion untold = slice(0, HERE, 0, List.of(0), -1, 16);
    assertThat(joined(told, slice(1, HERE + 2048, 0, List.of(0), 2048, 16))).isEqualTo(1);
    assertThat(joined(untold, slice(1, HERE + 2048, 0, List.of(0), -1, 16))).isEqualTo(2);
    assertThat(joined(untold, slice(1, HERE + 1024, 0, List.of(0), -1, 16))).isEqualTo(1);
  }

  @Test
  void blocksThatAreSplitByHeadAreNotJoinedInRowsThatLookAlike() {
    // The prefiller's halves lie as far apart as the decoder's whole layers.
    List<TransferRegion> local = row(HERE, 8192, 1024, 0, 2048, 4096);
    List<TransferRegion> remote = row(THERE, 8192, 2048, 0, 2048, 4096);
    assertThat(
            copies(local, new PeerLayout(0, 1, 1, remote), new RankLayout(1, 2, 0, 1, 0))
                .intervals())
        .containsExactlyInAnyOrder(
            copy(2 * 8192, 5 * 8192 + 1024, 1024),
            copy(3 * 8192, 6 * 8192 + 1024, 1024),
            copy(2 * 8192 + 2048, 5 * 8192 + 3072, 1024),
            copy(3 * 8192 + 2048, 6 * 8192 + 3072, 1024),
            copy(2 * 8192 + 4096, 5 * 8192 + 5120, 1024),
            copy(3 * 8192 + 4096, 6 * 8192 + 5120, 1024));
  }

  @Test
  void headsThatRanksHoldCopiesOfAreNotJoinedInRowsThatLookAlike() {
    List<TransferRegion> local = row(HERE, 8192, 1024, 0, 2048);
    List<TransferRegion> remote = row(THERE, 8192, 2048, 0, 2048);
    KvCacheSpec twoHeads = new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 2, false, 1);
    PeerPlan plan =
        PeerPlan.prepare(
            new LocalCache(new RankLayout(2, 4, 0, 1, 0), twoHeads, local),
            new PeerLayout(0, 1, 1, remote));
    try (DescriptorList out = new DescriptorList()) {
      plan.plan(BlockIds.of(2), BlockIds.of(5), new BlockRuns(), out);
      assertThat(ByteMap.of(out).intervals())
          .containsExactlyInAnyOrder(
              copy(2 * 8192, 5 * 8192 + 1024, 1024), copy(2 * 8192 + 2048, 5 * 8192 + 3072, 1024));
    }
  }

  @Test
  void slicesThatAreNotWhereTheirRowOffsetSaysAreNotJoined() {
    List<TransferRegion> local =
        List.of(
            slice(0, HERE, 0, List.of(0), 1024, 16),
            slice(1, HERE + 2048, 0, List.of(0), 3072, 16));
    List<TransferRegion> remote =
        List.of(
            slice(0, THERE, 0, List.of(0), 1024, 16),
            slice(1, THERE + 4096, 0, List.of(0), 3072, 16));
    assertThat(RegionAlignment.mergeInStep(new AlignedRegions(local, remote), true).size())
        .isEqualTo(2);
  }

  /** Only what a whole row covers on both sides is left out. */
  @Test
  void aSliceThatOnlyClaimsToBeInARowIsStillCopied() {
    List<TransferRegion> local = new ArrayList<>(row(HERE, 8192, 1024, 1024, 0));
    List<TransferRegion> remote = new ArrayList<>(row(THERE, 8192, 1024, 1024, 0));
    local.add(slice(7, HERE + 8000, 0, List.of(0), 8000, 16));
    remote.add(slice(7, THERE + 8000, 0, List.of(0), 8000, 16));
    AlignedRegions joined = RegionAlignment.mergeInStep(new AlignedRegions(local, remote), true);
    assertThat(joined.local()).extracting(TransferRegion::layerIndex).containsExactly(1, 7);

    local.set(2, slice(7, HERE + 8192 + 1024, 0, List.of(0), 1024, 16));
    remote.set(2, slice(7, THERE + 8192 + 1024, 0, List.of(0), 1024, 16));
    joined = RegionAlignment.mergeInStep(new AlignedRegions(local, remote), true);
    assertThat(joined.local()).extracting(TransferRegion::layerIndex).containsExactly(1, 7);
  }
}
