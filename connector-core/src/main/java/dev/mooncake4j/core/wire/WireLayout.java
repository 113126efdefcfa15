package dev.mooncake4j.core.wire;

import java.util.Arrays;
import java.util.List;

/**
 * Where a decoder's blocks lie, as it goes on the wire: one entry per region in each list.
 *
 * <p>The three lists that are always there may come without the registered ones (an older peer or a
 * test): then names are empty, indices count up, groups are 0. Immutable; equal by content.
 */
public final class WireLayout {
  private static final WireLayout EMPTY =
      new WireLayout(
          new long[0],
          new long[0],
          new long[0],
          new String[0],
          new int[0],
          new int[0],
          new int[0][],
          new long[0]);

  final long[] baseAddresses;
  final long[] blockLens;
  final long[] kvBlockLens;
  final String[] layerNames;
  final int[] layerIndices;
  final int[] groupIndices;
  final int[][] sharedGroupIds;
  final long[] rowOffsets;

  /** Takes the arrays over: they must not be changed afterwards. */
  public WireLayout(
      long[] baseAddresses,
      long[] blockLens,
      long[] kvBlockLens,
      String[] layerNames,
      int[] layerIndices,
      int[] groupIndices,
      int[][] sharedGroupIds,
      long[] rowOffsets) {
    this.baseAddresses = baseAddresses;
    this.blockLens = blockLens;
    this.kvBlockLens = kvBlockLens;
    this.layerNames = layerNames;
    this.layerIndices = layerIndices;
    this.groupIndices = groupIndices;
    this.sharedGroupIds = sharedGroupIds;
    this.rowOffsets = rowOffsets;
  }

  /** No regions: a pull that only names its layout. */
  public static WireLayout empty() {
    return EMPTY;
  }

  /** Whether there are no regions. */
  public boolean isEmpty() {
    return baseAddresses.length == 0;
  }

  /** Number of regions. */
  public int regionCount() {
    return baseAddresses.length;
  }

  /** Address of a region's block 0; 64 unsigned bits. */
  public long baseAddress(int region) {
    return baseAddresses[region];
  }

  /** Bytes from one block to the next. */
  public long blockLen(int region) {
    return blockLens[region];
  }

  /** Bytes of a block that are KV. */
  public long kvBlockLen(int region) {
    return kvBlockLens[region];
  }

  /** The layer's name, empty where none came. */
  public String layerName(int region) {
    return layerNames.length == 0 ? "" : layerNames[region];
  }

  /** The layer's index in the model. */
  public int layerIndex(int region) {
    return layerIndices.length == 0 ? region : layerIndices[region];
  }

  /** The KV cache group. */
  public int groupIndex(int region) {
    return groupIndices.length == 0 ? 0 : groupIndices[region];
  }

  /** The groups that share the region's rows. */
  public List<Integer> sharedGroupIds(int region) {
    return sharedGroupIds.length == 0
        ? List.of(groupIndex(region))
        : Arrays.stream(sharedGroupIds[region]).boxed().toList();
  }

  /** Offset within a shared row, or -1. */
  public long rowOffset(int region) {
    return rowOffsets.length == 0 ? -1 : rowOffsets[region];
  }

  /** What is wrong with the lists' lengths, or an empty text. */
  String lengthProblem() {
    int n = baseAddresses.length;
    return list("block_lens", blockLens.length, n, false)
        + list("kv_block_lens", kvBlockLens.length, n, false)
        + list("registered_layer_names", layerNames.length, n, true)
        + list("registered_layer_indices", layerIndices.length, n, true)
        + list("registered_group_indices", groupIndices.length, n, true)
        + list("registered_shared_group_ids", sharedGroupIds.length, n, true)
        + list("registered_row_offsets", rowOffsets.length, n, true);
  }

  private static String list(String name, int length, int regions, boolean optional) {
    return length == regions || (optional && length == 0)
        ? ""
        : " " + name + " has length=" + length + " for regions=" + regions + ";";
  }

  @Override
  public boolean equals(Object o) {
    return o instanceof WireLayout w
        && Arrays.equals(baseAddresses, w.baseAddresses)
        && Arrays.equals(blockLens, w.blockLens)
        && Arrays.equals(kvBlockLens, w.kvBlockLens)
        && Arrays.equals(layerNames, w.layerNames)
        && Arrays.equals(layerIndices, w.layerIndices)
        && Arrays.equals(groupIndices, w.groupIndices)
        && Arrays.deepEquals(sharedGroupIds, w.sharedGroupIds)
        && Arrays.equals(rowOffsets, w.rowOffsets);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(baseAddresses) + Arrays.hashCode(layerNames);
  }

  @Override
  public String toString() {
    return "WireLayout[regions=" + baseAddresses.length + "]";
  }
}
