package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What does not fit is refused with the field and both values, and nothing is added. */
class PeerPlanErrorsTest {
  private static final KvCacheSpec ONE_GROUP = KvCacheSpec.fullAttention(16);
  private static final KvCacheSpec TWO_GROUPS =
      new KvCacheSpec(
          List.of(KvCacheGroup.fullAttention(16), KvCacheGroup.slidingWindow(16, 64)), 4, false, 2);

  private final DescriptorList out = new DescriptorList();
  private final BlockRuns runs = new BlockRuns();

  @AfterEach
  void free() {
    out.close();
  }

  private static TransferRegion region(String name, int index, long base, long kvBlockLen) {
    return new TransferRegion(name, index, base, 4096, kvBlockLen, 0, List.of(0), -1, 100);
  }

  private static TransferRegion grouped(
      TransferRegion region, int group, List<Integer> shared, long rowOffset) {
    return new TransferRegion(
        region.layerName(),
        region.layerIndex(),
        region.baseAddress(),
        region.blockLen(),
        region.kvBlockLen(),
        group,
        shared,
        rowOffset,
        region.blockCount());
  }

  private static LocalCache local(RankLayout rank, KvCacheSpec spec, TransferRegion... regions) {
    return new LocalCache(rank, spec, Arrays.asList(regions));
  }

  private static LocalCache local(TransferRegion... regions) {
    return local(RankLayout.single(), ONE_GROUP, regions);
  }

  private static PeerLayout peer(TransferRegion... regions) {
    return new PeerLayout(0, 1, 1, Arrays.asList(regions));
  }

  private static void refused(ThrowingCallable call, Reason reason, String... parts) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(PlanException.class, e -> assertThat(e.reason()).isEqualTo(reason))
        .message()
        .contains(parts);
  }

  @Test
  void aRankThatDoesNotPair() {
    LocalCache local =
        local(new RankLayout(1, 2, 0, 1, 0), ONE_GROUP, region("a", 0, 1 << 20, 4096));
    List<TransferRegion> regions = List.of(region("a", 0, 1 << 30, 2048));
    refused(
        () -> PeerPlan.prepare(local, new PeerLayout(1, 4, 1, regions)),
        Reason.NOT_PAIRED,
        "remote_tp_rank=1",
        "tp_rank=1",
        "pairs with 2 to 3");
    refused(
        () -> PeerPlan.prepare(local, new PeerLayout(1, 3, 1, regions)),
        Reason.TP_SIZE,
        "tp_size=2",
        "remote_tp_size=3");
    for (int size : new int[] {0, -1, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
      refused(
          () -> PeerPlan.prepare(local, new PeerLayout(0, size, 1, regions)),
          Reason.RANK,
          "remote_tp_size=" + size);
      refused(
          () -> PeerPlan.prepare(local, new PeerLayout(1, 2, size, regions)),
          Reason.RANK,
          "remote_pp_size=" + size);
    }
    refused(
        () -> PeerPlan.prepare(local, new PeerLayout(4, 4, 1, regions)),
        Reason.RANK,
        "remote_tp_rank=4");
    refused(
        () -> PeerPlan.prepare(local, new PeerLayout(-1, 4, 1, regions)),
        Reason.RANK,
        "remote_tp_rank=-1");
  }

  @Test
  void regionsWhoseNumbersDoNotFit() {
    LocalCache local = local(region("a", 0, 1 << 20, 4096));
    for (long kvBlockLen : new long[] {0, -1, 4097, Long.MIN_VALUE, Long.MAX_VALUE}) {
      refused(
          () -> PeerPlan.prepare(local, peer(region("a", 0, 1 << 30, kvBlockLen))),
          Reason.REGION,
          "decoder layer=a",
          "kv_block_len=" + kvBlockLen);
    }
    refused(
        () -> PeerPlan.prepare(local, peer(region("a", 0, Long.MIN_VALUE, 4096))),
        Reason.REGION,
        "base_addr=9223372036854775808");
    refused(
        () -> PeerPlan.prepare(local, peer(region("a", 0, Long.MAX_VALUE - 4096 * 50, 4096))),
        Reason.REGION,
        "block_count=100",
        "reach 2^63");
    refused(
        () -> PeerPlan.prepare(local(region("a", 0, -1, 4096)), peer()),
        Reason.REGION,
        "prefiller layer=a",
        "base_addr=18446744073709551615");
  }

  @Test
  void layersThatDiffer() {
    TransferRegion a = region("a", 0, 1 << 20, 4096);
    TransferRegion b = region("b", 1, 1 << 24, 4096);
    refused(() -> PeerPlan.prepare(local(a, b), peer(a)), Reason.LAYER_SET, "layer=b", "regions=0");
    // vLLM lets this pass and the decoder's layer stays as it was.
    refused(() -> PeerPlan.prepare(local(a), peer(a, b)), Reason.LAYER_SET, "layer=b", "regions=0");
    refused(
        () -> PeerPlan.prepare(local(a), peer(a, a)), Reason.LAYER_SET, "regions=1", "regions=2");
    refused(
        () -> PeerPlan.prepare(local(a, a), peer(a)), Reason.LAYER_SET, "regions=2", "regions=1");
    refused(
        () -> PeerPlan.prepare(local(b), peer(region("b", 2, 1 << 24, 4096))),
        Reason.LAYER_INDEX,
        "layer_index",
        "prefiller=1",
        "decoder=2");
    refused(
        () -> PeerPlan.prepare(local(a), peer(region("a", 0, 1 << 30, 2048))),
        Reason.KV_BLOCK_LENGTH,
        "layer=a",
        "prefiller=4096",
        "decoder=2048");
  }

  @Test
  void aPieceOfALayerMayNotBeMissingBetweenPipelines() {
    TransferRegion a = region("a", 0, 1 << 20, 4096);
    TransferRegion b = region("b", 1, 1 << 24, 4096);
    LocalCache stage = local(new RankLayout(0, 1, 0, 2, 0), ONE_GROUP, a);
    assertThat(copies(PeerPlan.prepare(stage, peer(a, b)), BlockIds.of(1))).isEqualTo(1);
    // The other stage: no layer in common, nothing to copy.
    assertThat(copies(PeerPlan.prepare(stage, peer(b)), BlockIds.of(1))).isZero();
    refused(() -> PeerPlan.prepare(stage, peer(a, a, b)), Reason.LAYER_SET, "layer=a");
    LocalCache twoPieces = local(new RankLayout(0, 1, 0, 2, 0), ONE_GROUP, a, a);
    refused(() -> PeerPlan.prepare(twoPieces, peer(a, b)), Reason.LAYER_SET, "layer=a");
  }

  @Test
  void groupsThatDiffer() {
    TransferRegion a = region("a", 0, 1 << 20, 4096);
    TransferRegion inSecond = grouped(a, 1, List.of(1), -1);
    TransferRegion shared = grouped(a, TransferRegion.SHARED, List.of(0, 1), -1);
    TransferRegion sharedUntold = grouped(a, TransferRegion.SHARED, List.of(), -1);
    LocalCache local = local(RankLayout.single(), TWO_GROUPS, a);
    refused(
        () -> PeerPlan.prepare(local, peer(inSecond)),
        Reason.GROUP_INDEX,
        "prefiller=0",
        "decoder=1");
    refused(() -> PeerPlan.prepare(local(a), peer(inSecond)), Reason.GROUP_INDEX, "group_index=1");
    refused(
        () -> PeerPlan.prepare(local, peer(grouped(a, -2, List.of(), -1))),
        Reason.GROUP_INDEX,
        "group_index=-2");
    LocalCache localShared = local(RankLayout.single(), TWO_GROUPS, shared);
    refused(
        () ->
            PeerPlan.prepare(
                localShared, peer(grouped(a, TransferRegion.SHARED, List.of(1, 0), -1))),
        Reason.SHARED_GROUPS,
        "[0, 1]",
        "[1, 0]");
    for (List<Integer> ids : List.of(List.of(0, 2), List.of(-1, 0), List.of(0, 0))) {
      refused(
          () -> PeerPlan.prepare(localShared, peer(grouped(a, TransferRegion.SHARED, ids, -1))),
          Reason.GROUP_INDEX,
          ids.toString());
    }
    refused(
        () ->
            PeerPlan.prepare(
                local(RankLayout.single(), TWO_GROUPS, sharedUntold), peer(sharedUntold)),
        Reason.GROUP_INDEX,
        "shared_group_ids=[]");
    // A peer that does not tell means the prefiller's groups.
    PeerPlan plan = PeerPlan.prepare(localShared, peer(sharedUntold));
    assertThat(copies(plan, BlockIds.ofGroups(new int[] {1}, new int[] {7}))).isEqualTo(2);
  }

  @Test
  void aRowThatHidesItsLayersBetweenPipelines() {
    TransferRegion named = grouped(region("a", 0, 1 << 20, 1024), 0, List.of(0), 0);
    TransferRegion opaque = grouped(region("a", 0, 1 << 20, 4096), 0, List.of(0), 0);
    LocalCache stage = local(new RankLayout(0, 1, 0, 2, 0), ONE_GROUP, opaque);
    refused(
        () -> PeerPlan.prepare(stage, peer(named)),
        Reason.OPAQUE_ROW,
        "prefiller layer=a",
        "pp_size=2",
        "remote_pp_size=1");
    refused(
        () -> PeerPlan.prepare(local(named), new PeerLayout(0, 1, 2, List.of(opaque))),
        Reason.OPAQUE_ROW,
        "decoder layer=a");
    // With one pipeline size both cut alike.
    PeerPlan.prepare(stage, new PeerLayout(0, 1, 2, List.of(opaque)));
  }

  @Test
  void headsThatCannotBeSharedOut() {
    KvCacheSpec sixHeads = new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 6, false, 1);
    refused(
        () ->
            PeerPlan.prepare(
                local(new RankLayout(0, 4, 0, 1, 0), sixHeads, region("a", 0, 1 << 20, 1024)),
                new PeerLayout(0, 2, 1, List.of(region("a", 0, 1 << 30, 2048)))),
        Reason.TP_SIZE,
        "total_kv_heads=6",
        "tp_size=4");
  }

  @Test
  void lengthsOfTensorParallelRanks() {
    LocalCache local =
        local(new RankLayout(0, 2, 0, 1, 0), ONE_GROUP, region("a", 0, 1 << 20, 1024));
    PeerPlan.prepare(local, new PeerLayout(0, 1, 1, List.of(region("a", 0, 1 << 30, 2048))));
    PeerPlan.prepare(local, new PeerLayout(1, 4, 1, List.of(region("a", 0, 1 << 30, 512))));
    refused(
        () ->
            PeerPlan.prepare(
                local, new PeerLayout(0, 1, 1, List.of(region("a", 0, 1 << 30, 1024)))),
        Reason.KV_BLOCK_LENGTH,
        "1:2",
        "prefiller=1024",
        "decoder=1024");
    KvCacheSpec mla = new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 0, true, 1);
    // vLLM compares nothing here and would write half of a block.
    refused(
        () ->
            PeerPlan.prepare(
                local(RankLayout.single(), mla, region("a", 0, 1 << 20, 1024)),
                peer(region("a", 0, 1 << 30, 2048))),
        Reason.KV_BLOCK_LENGTH,
        "mla=true");
  }

  @Test
  void aStateIsCutByRankAndNotByHead() {
    KvCacheSpec mamba = new KvCacheSpec(List.of(KvCacheGroup.mamba(16)), 1, false, 1);
    LocalCache local = local(RankLayout.single(), mamba, region("a", 0, 1 << 20, 2048));
    PeerPlan plan =
        PeerPlan.prepare(local, new PeerLayout(1, 2, 1, List.of(region("a", 0, 1 << 30, 1024))));
    plan.plan(BlockIds.of(1), BlockIds.of(1), runs, out);
    assertThat(out.source(0)).isEqualTo((1 << 20) + 4096 + 1024);
    assertThat(out.length(0)).isEqualTo(1024);
  }

  private static int copies(PeerPlan plan, BlockIds ids) {
    try (DescriptorList list = new DescriptorList()) {
      plan.plan(ids, ids, new BlockRuns(), list);
      return list.size();
    }
  }

  private void refusedRequest(
      PeerPlan plan, BlockIds local, BlockIds remote, Reason reason, String... parts) {
    out.clear();
    out.add(1, 2, 3);
    refused(() -> plan.plan(local, remote, runs, out), reason, parts);
    assertThat(out.size()).isEqualTo(1);
    assertThat(out.bytes()).isEqualTo(3);
    // The scratch is fit for the next request.
    int groups = remote.groupCount() == 2 ? 2 : 1;
    runs.fill(
        BlockIds.ofGroups(new int[groups][1]),
        BlockIds.ofGroups(new int[groups][1]),
        new boolean[groups]);
    assertThat(runs.size()).isEqualTo(groups);
  }

  @Test
  void requestsThatDoNotFit() {
    TransferRegion a = region("a", 0, 1 << 20, 1024);
    TransferRegion b = grouped(region("b", 1, 1 << 24, 1024), 1, List.of(1), -1);
    PeerPlan plan = PeerPlan.prepare(local(RankLayout.single(), TWO_GROUPS, a, b), peer(a, b));
    BlockIds good = BlockIds.ofGroups(new int[] {1, 2}, new int[] {3, 4});

    refusedRequest(
        plan,
        BlockIds.of(1, 2),
        good,
        Reason.GROUP_COUNT,
        "prefiller=1",
        "decoder=2",
        "registered=2");
    refusedRequest(plan, good, BlockIds.of(1, 2), Reason.GROUP_COUNT, "prefiller=2", "decoder=1");
    refusedRequest(plan, BlockIds.none(), good, Reason.GROUP_COUNT, "prefiller=0");
    refusedRequest(
        plan,
        good,
        BlockIds.ofGroups(new int[] {1}, new int[] {3, 4, 5}),
        Reason.BLOCK_COUNT,
        "group=1",
        "blocks=3",
        "blocks=2");
    refusedRequest(
        plan,
        BlockIds.ofGroups(new int[] {1, 2}, new int[] {3, -7}),
        good,
        Reason.BLOCK_ID,
        "prefiller block_id=-7",
        "index=1");
    refusedRequest(
        plan,
        good,
        BlockIds.ofGroups(new int[] {1, 2}, new int[] {Integer.MIN_VALUE, 4}),
        Reason.BLOCK_ID,
        "decoder block_id=-2147483648",
        "index=0");
    refusedRequest(
        plan,
        BlockIds.ofGroups(new int[] {-1}, new int[] {3}),
        BlockIds.ofGroups(new int[] {-1}, new int[] {3}),
        Reason.BLOCK_ID,
        "prefiller block_id=-1",
        "index=0");
    // 100 blocks of memory are 50 ids of two blocks.
    refusedRequest(
        plan,
        BlockIds.ofGroups(new int[] {1, 2}, new int[] {49, 50}),
        good,
        Reason.BLOCK_ID,
        "prefiller layer=b",
        "block_id=50",
        "block_count=100");
    refusedRequest(
        plan,
        good,
        BlockIds.ofGroups(new int[] {1, 50}, new int[] {3, 4}),
        Reason.BLOCK_ID,
        "decoder layer=a",
        "block_id=50");
    out.clear();
    plan.plan(
        BlockIds.ofGroups(new int[] {49}, new int[] {49}),
        BlockIds.ofGroups(new int[] {0}, new int[] {49}),
        runs,
        out);
    assertThat(out.bytes()).isEqualTo(4 * 1024);
  }

  @Test
  void nothingIsCopiedForNothing() {
    TransferRegion a = region("a", 0, 1 << 20, 1024);
    PeerPlan plan = PeerPlan.prepare(local(a), peer(a));
    plan.plan(BlockIds.of(1, 2), BlockIds.none(), runs, out);
    plan.plan(BlockIds.of(1, 2), BlockIds.of(), runs, out);
    plan.plan(BlockIds.none(), BlockIds.none(), runs, out);
    plan.plan(BlockIds.of(1), BlockIds.ofGroups(new int[3][0]), runs, out);
    assertThat(out.size()).isZero();
  }

  @Test
  void aStatesNullBlocksDoNotCount() {
    TransferRegion a = region("a", 0, 1 << 20, 4096);
    TransferRegion far = region("a", 0, 1L << 40, 4096);
    KvCacheSpec mamba = new KvCacheSpec(List.of(KvCacheGroup.mamba(16)), 0, false, 4);
    PeerPlan plan = PeerPlan.prepare(local(RankLayout.single(), mamba, a), peer(far));
    plan.plan(BlockIds.of(8, 0, 5, 0), BlockIds.of(0, 0, 3), runs, out);
    assertThat(out.size()).isEqualTo(1);
    assertThat(out.source(0)).isEqualTo((1 << 20) + 5 * 4096);
    assertThat(out.destination(0)).isEqualTo((1L << 40) + 3 * 4096);
    out.clear();
    plan.plan(BlockIds.of(0, 0), BlockIds.of(0, 0, 0), runs, out);
    assertThat(out.size()).isZero();
    refusedRequest(
        plan, BlockIds.of(0, 5), BlockIds.of(3, 4), Reason.BLOCK_COUNT, "blocks=2", "blocks=1");
  }

  @Test
  void oneOfTheRanksThatHoldTheSameSends() {
    KvCacheSpec mla = new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 0, true, 1);
    List<TransferRegion> remote = new ArrayList<>(List.of(region("a", 0, 1 << 30, 1024)));
    for (int rank = 0; rank < 4; rank++) {
      PeerPlan plan =
          PeerPlan.prepare(
              local(new RankLayout(rank, 4, 0, 1, 0), mla, region("a", 0, 1 << 20, 1024)),
              new PeerLayout(rank / 2, 2, 1, remote));
      assertThat(copies(plan, BlockIds.of(1))).isEqualTo(rank % 2 == 0 ? 1 : 0);
      // Also a rank that sends nothing says so where a request cannot be served.
      refusedRequest(plan, BlockIds.of(1), BlockIds.of(1, 2), Reason.BLOCK_COUNT, "blocks=2");
    }
  }
}
