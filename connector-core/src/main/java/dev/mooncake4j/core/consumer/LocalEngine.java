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

  /** Ids that are looked at in one call: a loop in short calls is compiled early. */
  private static final int PIECE = 64;

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
      String problem = problemWith(blocks, g);
      if (problem != null) {
        return problem;
      }
    }
    return null;
  }

  private @Nullable String problemWith(BlockIds blocks, int group) {
    long count = blockCount(group);
    int n = blocks.size(group);
    int[] piece = new int[Math.min(n, PIECE)];
    int last = -1;
    BitSet seen = null;
    for (int from = 0; from < n; from += PIECE) {
      int length = Math.min(n - from, PIECE);
      blocks.copyTo(group, from, piece, 0, length);
      if (seen == null) {
        int next = ascend(piece, length, last, count);
        if (next >= 0) {
          last = next;
          continue;
        }
        // From here on each id is remembered, with those before it.
        seen = new BitSet();
        for (int i = 0; i < from; i++) {
          seen.set(blocks.get(group, i));
        }
      }
      String problem = problemAmong(piece, length, seen, group, count);
      if (problem != null) {
        return problem;
      }
    }
    return null;
  }

  /** The last of some ids if they ascend from {@code last} and are all below a limit, or -1. */
  private static int ascend(int[] ids, int length, int last, long limit) {
    int before = last;
    for (int i = 0; i < length; i++) {
      int id = ids[i];
      if (id <= before) {
        return -1;
      }
      before = id;
    }
    return before < limit ? before : -1;
  }

  private static @Nullable String problemAmong(
      int[] ids, int length, BitSet seen, int group, long count) {
    for (int i = 0; i < length; i++) {
      int id = ids[i];
      if (id < 0 || id >= count) {
        return "block_id=" + id + " of group=" + group + " is not within 0 to " + (count - 1);
      }
      if (seen.get(id)) {
        return "block_id="
            + id
            + " of group="
            + group
            + " is given twice: each block of a prompt needs its own";
      }
      seen.set(id);
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
