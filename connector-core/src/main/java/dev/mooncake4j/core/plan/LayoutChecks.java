package dev.mooncake4j.core.plan;

import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What must hold between two layouts before the first byte is written.
 *
 * <p>Some of it is stricter than vLLM, which lets a decoder's layers go unfilled and compares no
 * lengths where KV is replicated.
 */
final class LayoutChecks {

  private LayoutChecks() {}

  /** Each region by itself: a peer's numbers are only numbers. */
  static void checkRegions(String side, List<TransferRegion> regions, int groupCount) {
    for (TransferRegion region : regions) {
      if (region.blockLen() < 1
          || region.kvBlockLen() < 1
          || region.kvBlockLen() > region.blockLen()
          || region.blockCount() < 0) {
        throw new PlanException(
            Reason.REGION,
            at(side, region)
                + ": kv_block_len="
                + region.kvBlockLen()
                + ", block_len="
                + region.blockLen()
                + ", block_count="
                + region.blockCount()
                + " do not fit: give 1 <= kv_block_len <= block_len and block_count >= 0");
      }
      // The last block is followed to its stride: a full row may be copied.
      if (region.baseAddress() < 0
          || region.blockLen() > Long.MAX_VALUE - region.baseAddress()
          || region.blockCount() > (Long.MAX_VALUE - region.baseAddress()) / region.blockLen()) {
        throw new PlanException(
            Reason.REGION,
            at(side, region)
                + ": base_addr="
                + Long.toUnsignedString(region.baseAddress())
                + ", block_len="
                + region.blockLen()
                + ", block_count="
                + region.blockCount()
                + " reach 2^63");
      }
      checkGroups(side, region, groupCount);
    }
  }

  private static void checkGroups(String side, TransferRegion region, int groupCount) {
    if (region.groupIndex() == TransferRegion.SHARED) {
      // A peer may leave the groups out: then this side's list counts.
      Set<Integer> distinct = new HashSet<>();
      for (int group : region.sharedGroupIds()) {
        if (group < 0 || group >= groupCount || !distinct.add(group)) {
          throw new PlanException(
              Reason.GROUP_INDEX,
              at(side, region)
                  + ": shared_group_ids="
                  + region.sharedGroupIds()
                  + " are not distinct groups within groups="
                  + groupCount);
        }
      }
    } else if (region.groupIndex() < 0 || region.groupIndex() >= groupCount) {
      throw new PlanException(
          Reason.GROUP_INDEX,
          at(side, region)
              + ": group_index="
              + region.groupIndex()
              + " is not within groups="
              + groupCount);
    }
  }

  /**
   * A row that starts at offset 0 and is KV to its end keeps only its first layer's name; the
   * others would go missing silently where stages cut the layers elsewhere.
   */
  static void checkRowsNamed(LocalCache local, PeerLayout remote) {
    if (local.rank().ppSize() == remote.ppSize()) {
      return;
    }
    checkRowsNamed("prefiller", local.regions(), local, remote);
    checkRowsNamed("decoder", remote.regions(), local, remote);
  }

  private static void checkRowsNamed(
      String side, List<TransferRegion> regions, LocalCache local, PeerLayout remote) {
    for (TransferRegion region : regions) {
      if (region.rowOffset() == 0 && region.kvBlockLen() == region.blockLen()) {
        throw new PlanException(
            Reason.OPAQUE_ROW,
            at(side, region)
                + ": one region is the whole row of block_len="
                + region.blockLen()
                + ", so that its layers cannot be told apart between pp_size="
                + local.rank().ppSize()
                + " and remote_pp_size="
                + remote.ppSize()
                + "; run both sides with one pipeline size");
      }
    }
  }

  /** No layer of the decoder, and no piece of one, may stay unfilled. */
  static void checkLayerSet(
      List<TransferRegion> local, List<TransferRegion> remote, boolean partialLayers) {
    Map<String, Integer> localCounts = new HashMap<>();
    Map<String, Integer> remoteCounts = new HashMap<>();
    local.forEach(r -> localCounts.merge(r.layerName(), 1, Integer::sum));
    remote.forEach(r -> remoteCounts.merge(r.layerName(), 1, Integer::sum));
    for (TransferRegion region : remote) {
      int ours = localCounts.getOrDefault(region.layerName(), 0);
      int theirs = remoteCounts.getOrDefault(region.layerName(), 0);
      if (ours < theirs && !(partialLayers && ours == 0)) {
        throw new PlanException(
            Reason.LAYER_SET,
            "layer="
                + region.layerName()
                + ": the prefiller has regions="
                + ours
                + ", the decoder has regions="
                + theirs
                + "; run the same model and the same layout on both sides");
      }
    }
  }

  /** The bytes of a block on both sides must be as the tensor-parallel sizes tell. */
  static void checkLengths(LocalCache local, PeerLayout remote, AlignedRegions regions) {
    int tpSize = local.rank().tpSize();
    int remoteTpSize = remote.tpSize();
    int heads = local.splittableHeads();
    int ratio;
    if (heads > 0) {
      checkHeads(heads, tpSize, remoteTpSize);
      // Ranks beyond the number of heads hold copies.
      ratio = RankPairing.ratio(Math.min(tpSize, heads), Math.min(remoteTpSize, heads));
    } else {
      ratio = local.replicated() ? 1 : RankPairing.ratio(tpSize, remoteTpSize);
    }
    for (int i = 0; i < regions.size(); i++) {
      long ours = regions.local().get(i).kvBlockLen();
      long theirs = regions.remote().get(i).kvBlockLen();
      boolean fits =
          ratio > 0
              ? theirs % ratio == 0 && theirs / ratio == ours
              : ours % -ratio == 0 && ours / -ratio == theirs;
      if (!fits) {
        throw new PlanException(
            Reason.KV_BLOCK_LENGTH,
            "layer="
                + regions.local().get(i).layerName()
                + ": kv_block_len differs, prefiller="
                + ours
                + ", decoder="
                + theirs
                + ", expected as "
                + (ratio > 0 ? "1:" + ratio : -ratio + ":1")
                + " for tp_size="
                + tpSize
                + ", remote_tp_size="
                + remoteTpSize
                + ", total_kv_heads="
                + local.spec().totalKvHeads()
                + ", mla="
                + local.spec().mla()
                + "; run the same model, dtype and block size on both sides");
      }
    }
  }

  private static void checkHeads(int heads, int tpSize, int remoteTpSize) {
    if (tpSize == remoteTpSize) {
      return;
    }
    for (int size : new int[] {tpSize, remoteTpSize}) {
      if (Math.max(heads, size) % Math.min(heads, size) != 0) {
        throw new PlanException(
            Reason.TP_SIZE,
            "total_kv_heads="
                + heads
                + " and "
                + (size == tpSize ? "tp_size=" : "remote_tp_size=")
                + size
                + " do not divide, so that heads cannot be shared out between tp_size="
                + tpSize
                + " and remote_tp_size="
                + remoteTpSize);
      }
    }
  }

  private static String at(String side, TransferRegion region) {
    return side + " layer=" + region.layerName();
  }
}
