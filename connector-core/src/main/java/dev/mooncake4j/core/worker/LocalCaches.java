package dev.mooncake4j.core.worker;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.TransferRegion;
import dev.mooncake4j.core.wire.WireLayout;
import java.util.List;

/** A server's cache layout in the forms that the engine, the planner and the wire take. */
final class LocalCaches {
  private LocalCaches() {}

  static List<MemoryRange> ranges(KvCacheLayout layout) {
    return layout.memories().stream()
        .map(m -> new MemoryRange(m.address(), m.length(), m.location()))
        .toList();
  }

  /**
   * Refuses what cannot be read back.
   *
   * @throws KvConnectorException if it is not all host memory that every thread may read
   */
  static void checkReadable(KvCacheLayout layout, HostMemory readable) {
    if (readable.size() < layout.memories().size()) {
      throw new KvConnectorException(
          "integrity_check is on, but of memories="
              + layout.memories().size()
              + " only readable="
              + readable.size()
              + " can be read: it needs host memory of a shared, automatic or global arena, leave"
              + " integrity_check out for device memory");
    }
  }

  static LocalCache cache(KvCacheLayout layout, RankLayout rank, KvCacheSpec spec) {
    LocalCache cache = LocalCache.of(rank, spec, layout);
    String closed = cache.arenas().closed();
    if (closed != null) {
      throw new KvConnectorException(closed);
    }
    for (KvCacheRegion region : layout.regions()) {
      if (region.groupIndex() >= spec.groups().size()) {
        throw new KvConnectorException(
            "layer="
                + region.layerName()
                + " has group_index="
                + region.groupIndex()
                + " but the cache spec has groups="
                + spec.groups().size()
                + ": give each group in ConnectorConfig.cacheSpec");
      }
    }
    return cache;
  }

  static WireLayout wire(LocalCache cache) {
    List<TransferRegion> regions = cache.regions();
    int n = regions.size();
    long[] bases = new long[n];
    long[] blockLens = new long[n];
    long[] kvBlockLens = new long[n];
    String[] names = new String[n];
    int[] layerIndices = new int[n];
    int[] groupIndices = new int[n];
    int[][] shared = new int[n][];
    long[] rowOffsets = new long[n];
    for (int i = 0; i < n; i++) {
      TransferRegion region = regions.get(i);
      bases[i] = region.baseAddress();
      blockLens[i] = region.blockLen();
      kvBlockLens[i] = region.kvBlockLen();
      names[i] = region.layerName();
      layerIndices[i] = region.layerIndex();
      groupIndices[i] = region.groupIndex();
      shared[i] = region.sharedGroupIds().stream().mapToInt(Integer::intValue).toArray();
      rowOffsets[i] = region.rowOffset();
    }
    return new WireLayout(
        bases, blockLens, kvBlockLens, names, layerIndices, groupIndices, shared, rowOffsets);
  }
}
