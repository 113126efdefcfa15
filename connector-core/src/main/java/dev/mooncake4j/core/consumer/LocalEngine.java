package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.TransferRegion;
import dev.mooncake4j.core.wire.WireLayout;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/**
 * What a decoder tells prefillers of itself: where its engine is and where its blocks lie.
 *
 * @param host of its engine
 * @param port of its engine
 * @param cache its regions
 * @param layout the same as it goes on the wire
 * @param layoutId the name of that layout, odd and never 0
 * @param memory what of them can be read here, to check what has arrived
 */
public record LocalEngine(
    String host, int port, LocalCache cache, WireLayout layout, long layoutId, HostMemory memory) {

  /** The layout's place in a pull that only names it. */
  WireLayout noLayout() {
    return WireLayout.empty();
  }

  /** Why these blocks cannot be filled here, or {@code null}. */
  @Nullable String problemWith(BlockIds blocks) {
    String closed = cache.arenas().closed();
    if (closed != null) {
      return closed;
    }
    int groups = cache.spec().groups().size();
    if (blocks.groupCount() != groups) {
      return "block id groups=" + blocks.groupCount() + " but the kv cache has groups=" + groups;
    }
    for (int g = 0; g < groups; g++) {
      long count = blockCount(g);
      BitSet seen = new BitSet();
      for (int i = 0; i < blocks.size(g); i++) {
        int id = blocks.get(g, i);
        if (id < 0 || id >= count) {
          return "block_id=" + id + " of group=" + g + " is not within 0 to " + (count - 1);
        }
        if (seen.get(id)) {
          return "block_id="
              + id
              + " of group="
              + g
              + " is given twice: each block of a prompt needs its own";
        }
        seen.set(id);
      }
    }
    return null;
  }

  private long blockCount(int group) {
    long least = Long.MAX_VALUE;
    for (TransferRegion region : cache.regions()) {
      if (region.groupIndex() == group) {
        least = Math.min(least, region.blockCount());
      }
    }
    return least / cache.spec().physicalBlocksPerLogical();
  }
}
