package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.KvCacheRegion;
import java.util.List;

/**
 * One piece of a layer's KV as the two sides speak of it: block {@code b} starts at {@code
 * baseAddress + b * blockLen} and its first {@code kvBlockLen} bytes are KV.
 *
 * <p>The numbers may come from a peer and are not checked here: {@link PeerPlan#prepare} does so.
 * Immutable.
 *
 * @param layerName the model's name of the layer; a layer of several pieces repeats it, in the same
 *     order on both sides
 * @param layerIndex the layer's index in the whole model
 * @param baseAddress address of block 0; unsigned on the wire, so 2^63 and more are negative here
 * @param blockLen bytes from one block to the next
 * @param kvBlockLen bytes of a block that are KV
 * @param groupIndex the KV cache group whose block ids count here, or {@link #SHARED} where several
 *     groups keep their blocks in it
 * @param sharedGroupIds the groups that keep their blocks in it; empty where a peer did not tell
 * @param rowOffset bytes from the start of a shared row to this layer's slice of it, or -1 where
 *     rows are not shared
 * @param blockCount number of blocks, or 0 where it is not known: a peer does not tell
 */
public record TransferRegion(
    String layerName,
    int layerIndex,
    long baseAddress,
    long blockLen,
    long kvBlockLen,
    int groupIndex,
    List<Integer> sharedGroupIds,
    long rowOffset,
    long blockCount) {

  /** The group index of a region in which several groups keep their blocks. */
  public static final int SHARED = -1;

  /** Copies the list. */
  public TransferRegion {
    sharedGroupIds = List.copyOf(sharedGroupIds);
  }

  /**
   * A region of this process.
   *
   * <p>A row offset tells the peer that whole rows may be copied. It is held back (-1) where the
   * last row is cut short, because a copy of that row would leave the memory.
   */
  public static TransferRegion of(KvCacheRegion region) {
    return new TransferRegion(
        region.layerName(),
        region.layerIndex(),
        region.baseAddress(),
        region.blockStride(),
        region.kvBlockBytes(),
        region.sharedGroupIds().size() > 1 ? SHARED : region.groupIndex(),
        region.sharedGroupIds(),
        lastRowIsWhole(region) ? region.rowOffset() : -1,
        region.blockCount());
  }

  private static boolean lastRowIsWhole(KvCacheRegion region) {
    long firstRow = region.offset() - region.rowOffset();
    return region.rowOffset() >= 0
        && firstRow >= 0
        && region.blockCount() <= (region.memory().length() - firstRow) / region.blockStride();
  }

  /** Address past the KV of block 0. */
  long kvEnd() {
    return baseAddress + kvBlockLen;
  }

  /** This region with another length of KV per block. */
  TransferRegion withKvBlockLen(long length) {
    return new TransferRegion(
        layerName,
        layerIndex,
        baseAddress,
        blockLen,
        length,
        groupIndex,
        sharedGroupIds,
        rowOffset,
        blockCount);
  }

  /** The KV cache groups whose block ids count here. */
  List<Integer> groups() {
    return groupIndex == SHARED ? sharedGroupIds : List.of(groupIndex);
  }
}
