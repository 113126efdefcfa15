package dev.mooncake4j.bench;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.core.plan.BlockRuns;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.PeerLayout;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.plan.TransferRegion;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.NullUnmarked;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** How long a prefiller takes from block ids to copies; run by {@link Planning}. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@NullUnmarked // JMH makes it and calls setUp
public class PlanningBenchmark {
  private static final int BLOCK_BYTES = 32 * 1024;
  private static final long LOCAL = 1L << 40;
  private static final long REMOTE = 1L << 44;
  private static final long LAYER_BYTES = 1L << 34;

  /** Index of the shape. */
  @Param("0")
  public int shape;

  private LocalCache cache;
  private PeerLayout peer;
  private PeerPlan plan;
  private BlockIds source;
  private BlockIds destination;
  private BlockRuns runs;
  private DescriptorList descriptors;

  /** Makes the two layouts, and what a prefiller keeps between requests. */
  @Setup(Level.Trial)
  public void setUp() {
    PlanShape request = PlanShape.all().get(shape);
    cache =
        new LocalCache(
            RankLayout.single(),
            new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 8, false, 1),
            regions(LOCAL, request.layers()));
    peer = new PeerLayout(0, 1, 1, regions(REMOTE, request.layers()));
    plan = PeerPlan.prepare(cache, peer);
    source = ids(request.source());
    destination = ids(request.destination());
    runs = new BlockRuns();
    descriptors = new DescriptorList();
  }

  private static List<TransferRegion> regions(long base, int layers) {
    List<TransferRegion> regions = new ArrayList<>();
    for (int i = 0; i < layers; i++) {
      regions.add(
          new TransferRegion(
              "l" + i,
              i,
              base + i * LAYER_BYTES,
              BLOCK_BYTES,
              BLOCK_BYTES,
              0,
              List.of(0),
              -1,
              LAYER_BYTES / BLOCK_BYTES));
    }
    return regions;
  }

  private static BlockIds ids(List<Integer> ids) {
    return BlockIds.of(ids.stream().mapToInt(Integer::intValue).toArray());
  }

  /** Frees the copies. */
  @TearDown(Level.Trial)
  public void tearDown() {
    descriptors.close();
  }

  /** A request like those before it: layouts are known, memory is there. */
  @Benchmark
  public int steady() {
    descriptors.clear();
    plan.plan(source, destination, runs, descriptors);
    return descriptors.size();
  }

  /** The first request of a peer on a thread that has planned nothing yet. */
  @Benchmark
  public int first() {
    try (DescriptorList list = new DescriptorList()) {
      PeerPlan.prepare(cache, peer).plan(source, destination, new BlockRuns(), list);
      return list.size();
    }
  }
}
