package dev.mooncake4j.connector;

import java.util.List;

/**
 * Where one layer's KV lies: block {@code b} starts at {@code baseAddress + b * blockStride} and
 * its first {@code kvBlockBytes} are KV.
 *
 * <p>A layer with K and V apart has two regions of one name, K's first. Layer names, the order of
 * the regions and the bytes within a block must be the same on both sides; that is how a prefiller
 * pairs its regions with a decoder's.
 *
 * @param layerName the model's name of the layer, as {@code model.layers.0.self_attn.attn}
 * @param layerIndex the layer's index in the whole model, at least 0
 * @param groupIndex the KV cache group it belongs to, at least 0
 * @param memory the memory it lies in
 * @param offset of block 0 within the memory, in bytes
 * @param blockStride bytes from one block to the next, at least {@code kvBlockBytes}
 * @param kvBlockBytes bytes of a block that are KV, at least 1
 * @param blockCount number of blocks, at least 1
 * @param sharedGroupIds groups that share each row of this region; empty means its own group alone
 * @param rowOffset offset of this layer's slice within a shared row, or -1 where rows are not
 *     shared
 */
public record KvCacheRegion(
    String layerName,
    int layerIndex,
    int groupIndex,
    KvMemory memory,
    long offset,
    long blockStride,
    long kvBlockBytes,
    long blockCount,
    List<Integer> sharedGroupIds,
    long rowOffset) {

  /** Checks that every block lies within the memory. */
  public KvCacheRegion {
    sharedGroupIds = sharedGroupIds.isEmpty() ? List.of(groupIndex) : List.copyOf(sharedGroupIds);
    if (layerIndex < 0 || groupIndex < 0) {
      throw new IllegalArgumentException(
          "layer="
              + layerName
              + ": layer_index="
              + layerIndex
              + " or group_index="
              + groupIndex
              + " is negative");
    }
    if (kvBlockBytes < 1 || blockStride < kvBlockBytes || blockCount < 1 || offset < 0) {
      throw new IllegalArgumentException(
          "layer="
              + layerName
              + ": kv_block_bytes="
              + kvBlockBytes
              + ", block_stride="
              + blockStride
              + ", block_count="
              + blockCount
              + ", offset="
              + offset
              + " do not fit: give kv_block_bytes >= 1, block_stride >= kv_block_bytes,"
              + " block_count >= 1, offset >= 0");
    }
    long end;
    try {
      end =
          Math.addExact(
              Math.addExact(offset, Math.multiplyExact(blockCount - 1, blockStride)), kvBlockBytes);
    } catch (ArithmeticException e) {
      end = Long.MAX_VALUE;
    }
    if (end > memory.length()) {
      throw new IllegalArgumentException(
          "layer="
              + layerName
              + ": its last block ends at byte "
              + (end == Long.MAX_VALUE ? "2^63 or more" : end)
              + " of a memory of length="
              + memory.length()
              + ": offset="
              + offset
              + " + (block_count="
              + blockCount
              + " - 1) * block_stride="
              + blockStride
              + " + kv_block_bytes="
              + kvBlockBytes
              + " must be at most the length");
    }
  }

  /** A region of a model with one group and rows of its own. */
  public static KvCacheRegion of(
      String layerName,
      int layerIndex,
      KvMemory memory,
      long offset,
      long blockBytes,
      long blockCount) {
    return new KvCacheRegion(
        layerName,
        layerIndex,
        0,
        memory,
        offset,
        blockBytes,
        blockBytes,
        blockCount,
        List.of(),
        -1);
  }

  /** Address of block 0. */
  public long baseAddress() {
    return memory.address() + offset;
  }
}
