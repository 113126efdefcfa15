package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.core.plan.PlanException.Reason;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Large regions, many copies, and the edge of the address space. */
class PeerPlanLimitsTest {
  private final BlockRuns runs = new BlockRuns();

  private static TransferRegion region(
      int layer, long base, long blockLen, long kvBlockLen, long blockCount) {
    return new TransferRegion(
        "layers." + layer, layer, base, blockLen, kvBlockLen, 0, List.of(0), -1, blockCount);
  }

  private static PeerPlan plan(
      List<TransferRegion> local, List<TransferRegion> remote, int blocksPerId) {
    KvCacheSpec spec =
        new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 0, false, blocksPerId);
    return PeerPlan.prepare(
        new LocalCache(RankLayout.single(), spec, local), new PeerLayout(0, 1, 1, remote));
  }

  @Test
  void aRegionOfManyGigabytesInOneCopy() {
    long blockLen = 2L << 20;
    int blocks = 40_000;
    PeerPlan plan =
        plan(
            List.of(region(0, 1L << 40, blockLen, blockLen, blocks)),
            List.of(region(0, 1L << 44, blockLen, blockLen, 0)),
            1);
    int[] ids = new int[blocks];
    Arrays.setAll(ids, i -> i);
    try (DescriptorList out = new DescriptorList()) {
      plan.plan(BlockIds.of(ids), BlockIds.of(ids), runs, out);
      assertThat(out.size()).isEqualTo(1);
      assertThat(out.bytes()).isEqualTo(blocks * blockLen).isGreaterThan(70L << 30);
      out.clear();
      plan.plan(BlockIds.of(blocks - 1), BlockIds.of(123_456), runs, out);
      assertThat(out.source(0)).isEqualTo((1L << 40) + (blocks - 1) * blockLen);
      assertThat(out.destination(0)).isEqualTo((1L << 44) + 123_456 * blockLen);
    }
  }

  @Test
  void threeHundredThousandCopies() {
    List<TransferRegion> local = new ArrayList<>();
    List<TransferRegion> remote = new ArrayList<>();
    for (int layer = 0; layer < 60; layer++) {
      local.add(region(layer, (1L << 40) + ((long) layer << 34), 32_768, 32_000, 1 << 19));
      remote.add(region(layer, (1L << 44) + ((long) layer << 34), 32_768, 32_000, 0));
    }
    PeerPlan plan = plan(local, remote, 1);
    int[] ids = new int[5_000];
    Arrays.setAll(ids, i -> 5_000 - i);
    try (DescriptorList out = new DescriptorList()) {
      for (int round = 0; round < 3; round++) {
        out.clear();
        plan.plan(BlockIds.of(ids), BlockIds.of(ids), runs, out);
        assertThat(out.size()).isEqualTo(300_000);
        assertThat(out.bytes()).isEqualTo(300_000L * 32_000);
      }
      assertThat(out.source(299_999)).isEqualTo((1L << 40) + (59L << 34) + 32_768);
    }
  }

  @Test
  void theEdgeOfTheAddressSpace() {
    long blockLen = 1L << 30;
    long base = Long.MAX_VALUE - 4 * blockLen;
    PeerPlan plan =
        plan(
            List.of(region(0, 1L << 40, blockLen, blockLen, 4)),
            List.of(region(0, base, blockLen, blockLen, 0)),
            1);
    try (DescriptorList out = new DescriptorList()) {
      plan.plan(BlockIds.of(0, 1), BlockIds.of(2, 3), runs, out);
      assertThat(out.destination(0) + out.length(0)).isEqualTo(Long.MAX_VALUE);
      out.clear();
      for (int id : new int[] {4, 5, 1_000_000, Integer.MAX_VALUE}) {
        assertThatThrownBy(() -> plan.plan(BlockIds.of(0), BlockIds.of(id), runs, out))
            .isInstanceOfSatisfying(
                PlanException.class, e -> assertThat(e.reason()).isEqualTo(Reason.BLOCK_ID))
            .hasMessageContaining("block_id=" + id)
            .hasMessageContaining("block_count=unknown");
      }
      assertThatThrownBy(
              () -> plan.plan(BlockIds.of(Integer.MAX_VALUE, 0), BlockIds.of(0, 1), runs, out))
          .isInstanceOf(PlanException.class);
      assertThat(out.size()).isZero();
    }
  }

  @Test
  void idsAndBlocksBehindThemPassTwoToThe31() {
    int perId = 1 << 20;
    PeerPlan plan =
        plan(
            List.of(region(0, 1L << 40, 16, 16, 0)),
            List.of(region(0, 1L << 50, 16, 16, 0)),
            perId);
    try (DescriptorList out = new DescriptorList()) {
      plan.plan(BlockIds.of(3_000_000), BlockIds.of(Integer.MAX_VALUE), runs, out);
      assertThat(out.size()).isEqualTo(1);
      assertThat(out.source(0)).isEqualTo((1L << 40) + 3_000_000L * perId * 16);
      assertThat(out.destination(0)).isEqualTo((1L << 50) + (long) Integer.MAX_VALUE * perId * 16);
      assertThat(out.length(0)).isEqualTo(16L * perId);
    }
  }

  @Test
  void moreCopiesThanAListTakes() {
    PeerPlan plan =
        plan(
            List.of(region(0, 1L << 40, 32, 16, 0)),
            List.of(region(0, 1L << 50, 32, 16, 0)),
            1 << 29);
    try (DescriptorList out = new DescriptorList()) {
      assertThatThrownBy(() -> plan.plan(BlockIds.of(1, 2, 3), BlockIds.of(1, 2, 3), runs, out))
          .isInstanceOfSatisfying(
              PlanException.class,
              e -> assertThat(e.reason()).isEqualTo(Reason.TOO_MANY_DESCRIPTORS))
          .hasMessageContaining("descriptors=1610612736");
      assertThat(out.size()).isZero();
    }
  }

  @Test
  void layersThatFollowEachOtherAreCopiedApart() {
    // The next layer comes right behind on both sides, but the peer may have registered each layer
    // for itself, and its engine refuses a write that spans two registrations.
    List<TransferRegion> local = new ArrayList<>();
    List<TransferRegion> remote = new ArrayList<>();
    for (int layer = 0; layer < 8; layer++) {
      local.add(region(layer, (1L << 40) + layer * 4L * 4096, 4096, 4096, 4));
      remote.add(region(layer, (1L << 44) + layer * 4L * 4096, 4096, 4096, 4));
    }
    try (DescriptorList out = new DescriptorList()) {
      plan(local, remote, 1).plan(BlockIds.of(0, 1, 2, 3), BlockIds.of(0, 1, 2, 3), runs, out);
      assertThat(out.size()).isEqualTo(8);
      assertThat(out.bytes()).isEqualTo(8 * 4 * 4096);
    }
  }

  /** Prints what a plan costs in processor time, so that a change that makes it slow is seen. */
  @Test
  @Tag("time")
  void timeOfAPlan() {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    Random random = new Random(5);
    int[][] shapes = {{28, 512, 1}, {61, 8192, 1}, {61, 8192, 8}, {80, 8192, 8192}};
    for (int[] shape : shapes) {
      List<TransferRegion> local = new ArrayList<>();
      List<TransferRegion> remote = new ArrayList<>();
      for (int layer = 0; layer < shape[0]; layer++) {
        local.add(region(layer, (1L << 40) + ((long) layer << 34), 32_768, 32_768, 1 << 19));
        remote.add(region(layer, (1L << 44) + ((long) layer << 34), 32_768, 32_768, 0));
      }
      PeerPlan plan = plan(local, remote, 1);
      BlockIds ours = scattered(random, shape[1], shape[2]);
      BlockIds theirs = scattered(random, shape[1], shape[2]);
      long[] micros = new long[60];
      try (DescriptorList out = new DescriptorList()) {
        for (int i = 0; i < micros.length; i++) {
          out.clear();
          long start = threads.getCurrentThreadCpuTime();
          plan.plan(ours, theirs, runs, out);
          micros[i] = (threads.getCurrentThreadCpuTime() - start) / 1_000;
        }
        long first = micros[0];
        Arrays.sort(micros);
        System.out.printf(
            "plan of layers=%d, blocks=%d, run=%d: descriptors=%d, cpu first=%d us, median=%d us,"
                + " best=%d us%n",
            shape[0], shape[1], shape[2], out.size(), first, micros[30], micros[0]);
        assertThat(out.bytes()).isEqualTo((long) shape[0] * shape[1] * 32_768);
      }
    }
  }

  private static BlockIds scattered(Random random, int count, int run) {
    int[] ids = new int[count];
    int next = 1;
    for (int i = 0; i < count; i++) {
      if (i % run == 0) {
        next += 2 + random.nextInt(7);
      }
      ids[i] = next++;
    }
    return BlockIds.of(ids);
  }
}
