package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import java.util.List;

/**
 * This rank's side of a plan. Immutable.
 *
 * @param rank its place in its engine
 * @param spec the shape of the cache, the same for every rank
 * @param regions its KV memory, in the order in which it was registered
 * @param arenas what that memory lives in
 */
public record LocalCache(
    RankLayout rank, KvCacheSpec spec, List<TransferRegion> regions, OpenArenas arenas) {

  /** Copies the list. */
  public LocalCache {
    regions = List.copyOf(regions);
  }

  /** A cache of which only the addresses are known. */
  public LocalCache(RankLayout rank, KvCacheSpec spec, List<TransferRegion> regions) {
    this(rank, spec, regions, OpenArenas.NONE);
  }

  /** The cache of a worker that has registered {@code layout}. */
  public static LocalCache of(RankLayout rank, KvCacheSpec spec, KvCacheLayout layout) {
    return new LocalCache(
        rank,
        spec,
        layout.regions().stream().map(TransferRegion::of).toList(),
        OpenArenas.of(layout));
  }

  /**
   * KV heads of the model where a block can be split by head, else 0: unknown, one latent instead
   * of heads, or a state beside them.
   */
  int splittableHeads() {
    return spec.mla() || spec.hasMamba() ? 0 : spec.totalKvHeads();
  }

  /** Whether ranks of this engine hold copies of each other's KV. */
  boolean replicated() {
    return spec.mla() || (spec.totalKvHeads() > 0 && rank.tpSize() > spec.totalKvHeads());
  }
}
