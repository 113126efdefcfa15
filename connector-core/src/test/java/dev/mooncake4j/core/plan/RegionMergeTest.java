package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
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
  }
}
