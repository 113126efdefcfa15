package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;

/** The planner gives vLLM's answers to vLLM's questions. */
class VllmAnswersTest {

  @TestFactory
  Stream<DynamicTest> contiguousGroups() {
    return Answers.each("contiguous_groups", VllmAnswersTest::contiguousGroup);
  }

  private static void contiguousGroup(JsonNode one) {
    BlockRuns runs = new BlockRuns();
    runs.fill(
        BlockIds.of(Answers.ints(one.get("in").get("src"))),
        BlockIds.of(Answers.ints(one.get("in").get("dst"))),
        new boolean[] {false});
    JsonNode sources = one.get("out").get("src");
    JsonNode destinations = one.get("out").get("dst");
    assertThat(runs.size()).isEqualTo(sources.size());
    for (int i = 0; i < runs.size(); i++) {
      int[] source = Answers.ints(sources.get(i));
      assertThat(runs.localStart(i)).isEqualTo(source[0]);
      assertThat(runs.remoteStart(i)).isEqualTo(destinations.get(i).get(0).intValue());
      assertThat(runs.length(i)).isEqualTo(source.length);
    }
  }

  @TestFactory
  Stream<DynamicTest> targetRanks() {
    return Answers.each("target_ranks", VllmAnswersTest::targetRank);
  }

  private static void targetRank(JsonNode one) {
    JsonNode in = one.get("in");
    int tpRank = in.get("tp_rank").intValue();
    int tpSize = in.get("tp_size").intValue();
    int remoteTpSize = in.get("remote_tp_size").intValue();
    if (one.get("out").has("error")) {
      assertThat(failure(() -> RankPairing.targetRanks(tpRank, tpSize, remoteTpSize)).reason())
          .isEqualTo(Reason.TP_SIZE);
      return;
    }
    int[] expected = Answers.ints(one.get("out").get("ok"));
    assertThat(RankPairing.targetRanks(tpRank, tpSize, remoteTpSize)).isEqualTo(expected);
    RankLayout rank = new RankLayout(tpRank, tpSize, 0, 1, 0);
    assertThat(RankPairing.consumerCount(rank, remoteTpSize, 1)).isEqualTo(expected.length);
  }

  @TestFactory
  Stream<DynamicTest> senderPlans() {
    return Answers.each("sender_plan", VllmAnswersTest::senderPlan);
  }

  private static void senderPlan(JsonNode one) {
    JsonNode in = one.get("in");
    JsonNode out = one.get("out");
    if (out.has("error")) {
      assertThat(failure(() -> senderPlanOf(in)).reason()).isEqualTo(Reason.TP_SIZE);
      return;
    }
    JsonNode ok = out.get("ok");
    assertThat(senderPlanOf(in))
        .isEqualTo(
            new SenderPlan(
                ok.get(0).booleanValue(),
                ok.get(1).longValue(),
                ok.get(2).longValue(),
                ok.get(3).longValue()));
  }

  private static SenderPlan senderPlanOf(JsonNode in) {
    return SenderPlan.of(
        in.get("local_tp_rank").intValue(),
        in.get("local_tp_size").intValue(),
        in.get("remote_tp_rank").intValue(),
        in.get("remote_tp_size").intValue(),
        in.get("local_kv_block_len").longValue(),
        in.get("remote_kv_block_len").longValue(),
        in.get("producer_cache_replicated").booleanValue(),
        Answers.intOrZero(in.get("total_num_kv_heads")));
  }

  @TestFactory
  Stream<DynamicTest> regionAlignments() {
    return Answers.each("region_alignment", VllmAnswersTest::regionAlignment);
  }

  private static void regionAlignment(JsonNode one) {
    JsonNode in = one.get("in");
    JsonNode out = one.get("out");
    List<TransferRegion> local = regions(in.get("local"));
    List<TransferRegion> remote = regions(in.get("remote"));
    boolean partial = in.get("allow_partial_layers").booleanValue();
    if (!out.get("error").isNull()) {
      assertThat(failure(() -> RegionAlignment.align(local, remote, partial)).reason())
          .isEqualTo(alignmentReason(out.get("error").stringValue()));
      return;
    }
    AlignedRegions aligned = RegionAlignment.align(local, remote, partial);
    assertThat(told(aligned.local())).isEqualTo(told(out.get("aligned_local")));
    assertThat(told(aligned.remote())).isEqualTo(told(out.get("aligned_remote")));
    AlignedRegions merged =
        RegionAlignment.merge(aligned, in.get("promote_full_row").booleanValue());
    assertThat(told(merged.local())).isEqualTo(told(out.get("merged_local")));
    assertThat(told(merged.remote())).isEqualTo(told(out.get("merged_remote")));
  }

  private static Reason alignmentReason(String error) {
    if (error.contains("no matching consumer occurrence")) {
      return Reason.LAYER_SET;
    } else if (error.contains("layer index mismatch")) {
      return Reason.LAYER_INDEX;
    } else if (error.contains("group index mismatch")) {
      return Reason.GROUP_INDEX;
    } else if (error.contains("shared-group set mismatch")) {
      return Reason.SHARED_GROUPS;
    }
    throw new AssertionError("unknown kind of error: " + error);
  }

  /** What an answer tells of a region. */
  private record Told(
      String layerName, long baseAddress, long blockLen, long kvBlockLen, long rowOffset) {}

  private static List<Told> told(JsonNode regions) {
    List<Told> out = new ArrayList<>();
    for (JsonNode r : regions) {
      out.add(
          new Told(
              r.get("layer_name").stringValue(),
              r.get("base_addr").longValue(),
              r.get("block_len").longValue(),
              r.get("kv_block_len").longValue(),
              r.get("row_offset").longValue()));
    }
    return out;
  }

  private static List<Told> told(List<TransferRegion> regions) {
    return regions.stream()
        .map(
            r ->
                new Told(
                    r.layerName(), r.baseAddress(), r.blockLen(), r.kvBlockLen(), r.rowOffset()))
        .toList();
  }

  @TestFactory
  Stream<DynamicTest> transferPlans() {
    return Answers.each("transfer_plan", VllmAnswersTest::transferPlan);
  }

  private static void transferPlan(JsonNode one) {
    JsonNode in = one.get("in");
    JsonNode out = one.get("out");
    LocalCache local =
        new LocalCache(
            new RankLayout(in.get("tp_rank").intValue(), in.get("tp_size").intValue(), 0, 1, 0),
            new KvCacheSpec(
                groups(in),
                Answers.intOrZero(in.get("total_num_kv_heads")),
                in.get("is_mla").booleanValue(),
                in.get("physical_blocks_per_logical").intValue()),
            regions(in.get("local_regions")));
    PeerLayout remote =
        new PeerLayout(
            in.get("remote_tp_rank").intValue(),
            in.get("remote_tp_size").intValue(),
            1,
            regions(in.get("remote_regions")));
    if (!out.get("validation_error").isNull()) {
      assertThat(failure(() -> PeerPlan.prepare(local, remote)).reason())
          .isIn(Reason.KV_BLOCK_LENGTH, Reason.LAYER_SET);
      return;
    }
    PeerPlan plan = PeerPlan.prepare(local, remote);
    BlockRuns runs = new BlockRuns();
    Set<String> failed = new HashSet<>();
    List<Reason> reasons = new ArrayList<>();
    try (DescriptorList descriptors = new DescriptorList()) {
      for (JsonNode request : in.get("requests")) {
        try {
          plan.plan(
              blockIds(request.get("local_block_ids")),
              blockIds(request.get("remote_block_ids")),
              runs,
              descriptors);
        } catch (PlanException e) {
          failed.add(request.get("req_id").stringValue());
          reasons.add(e.reason());
        }
      }
      Set<String> expectedFailed = new HashSet<>();
      out.get("err_reqs").forEach(id -> expectedFailed.add(id.stringValue()));
      assertThat(failed).isEqualTo(expectedFailed);
      if (!out.get("err_msg").isNull()) {
        assertThat(reasons.getFirst())
            .isEqualTo(
                out.get("err_msg").stringValue().equals("KV group count mismatch")
                    ? Reason.GROUP_COUNT
                    : Reason.BLOCK_COUNT);
      }
      long[] sources = Answers.longs(out.get("src"));
      ByteMap expected =
          ByteMap.of(sources, Answers.longs(out.get("dst")), Answers.longs(out.get("len")));
      ByteMap actual = ByteMap.of(descriptors);
      assertThat(actual.intervals()).isEqualTo(expected.intervals());
      assertThat(actual.bytes()).isEqualTo(expected.bytes()).isEqualTo(descriptors.bytes());
      assertThat(actual.overlaps()).isEqualTo(expected.overlaps());
      assertThat(descriptors.size()).isLessThanOrEqualTo(sources.length);
    }
  }

  /** As many groups as the case speaks of; all are full attention in these questions. */
  private static List<KvCacheGroup> groups(JsonNode in) {
    int count = 1;
    for (JsonNode region : in.get("local_regions")) {
      count = Math.max(count, region.get("group_index").intValue() + 1);
    }
    for (JsonNode request : in.get("requests")) {
      count = Math.max(count, request.get("local_block_ids").size());
    }
    List<KvCacheGroup> groups = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      groups.add(KvCacheGroup.fullAttention(16));
    }
    return groups;
  }

  private static BlockIds blockIds(JsonNode groups) {
    int[][] ids = new int[groups.size()][];
    for (int g = 0; g < ids.length; g++) {
      ids[g] = Answers.ints(groups.get(g));
    }
    return BlockIds.ofGroups(ids);
  }

  private static List<TransferRegion> regions(JsonNode array) {
    List<TransferRegion> out = new ArrayList<>();
    for (JsonNode r : array) {
      List<Integer> shared = new ArrayList<>();
      if (r.has("shared_group_ids")) {
        r.get("shared_group_ids").forEach(g -> shared.add(g.intValue()));
      }
      out.add(
          new TransferRegion(
              r.get("layer_name").stringValue(),
              r.get("layer_index").intValue(),
              r.get("base_addr").longValue(),
              r.get("block_len").longValue(),
              r.get("kv_block_len").longValue(),
              r.get("group_index").intValue(),
              shared,
              r.has("row_offset") ? r.get("row_offset").longValue() : -1,
              0));
    }
    return out;
  }

  private static PlanException failure(org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    PlanException e = catchThrowableOfType(PlanException.class, call);
    assertThat(e).as("a PlanException").isNotNull();
    return e;
  }
}
