package dev.mooncake4j.core.plan;

import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Brings the regions of two sides together by layer name, and joins slices of shared rows.
 *
 * <p>A stage of a pipeline holds a part of the layers, so a position in the list says nothing. A
 * layer of several regions repeats its name; its first is paired with the other side's first, and
 * so on. The rules are vLLM's.
 */
public final class RegionAlignment {

  private RegionAlignment() {}

  private record Key(String layerName, int occurrence) {}

  /**
   * Pairs each region of this side with the other side's, in this side's order. Regions that only
   * the other side has are left out.
   *
   * @param partialLayers whether layers that the other side does not have at all are left out too,
   *     as between pipelines of different sizes
   * @throws PlanException if a region has no partner, or its partner has another layer index, group
   *     or set of sharing groups
   */
  public static AlignedRegions align(
      List<TransferRegion> local, List<TransferRegion> remote, boolean partialLayers) {
    Map<Key, TransferRegion> remoteByKey = new HashMap<>();
    Map<String, Integer> seen = new HashMap<>();
    for (TransferRegion region : remote) {
      remoteByKey.put(key(region, seen), region);
    }
    List<TransferRegion> localAligned = new ArrayList<>(local.size());
    List<TransferRegion> remoteAligned = new ArrayList<>(local.size());
    Map<String, Integer> remoteSeen = seen;
    seen = new HashMap<>();
    for (TransferRegion region : local) {
      Key key = key(region, seen);
      TransferRegion partner = remoteByKey.get(key);
      if (partner == null) {
        int count = remoteSeen.getOrDefault(region.layerName(), 0);
        if (partialLayers && count == 0) {
          continue;
        }
        throw new PlanException(
            Reason.LAYER_SET,
            "layer="
                + region.layerName()
                + ": the prefiller has at least regions="
                + (key.occurrence() + 1)
                + ", the decoder has regions="
                + count
                + "; run the same model and the same layout on both sides");
      }
      checkSame(region, partner);
      localAligned.add(region);
      remoteAligned.add(partner);
    }
    return new AlignedRegions(localAligned, remoteAligned);
  }

  private static Key key(TransferRegion region, Map<String, Integer> seen) {
    return new Key(region.layerName(), seen.merge(region.layerName(), 1, Integer::sum) - 1);
  }

  private static void checkSame(TransferRegion local, TransferRegion remote) {
    if (local.layerIndex() != remote.layerIndex()) {
      throw differs(
          Reason.LAYER_INDEX,
          local.layerName(),
          "layer_index",
          local.layerIndex(),
          remote.layerIndex());
    }
    if (local.groupIndex() != remote.groupIndex()) {
      throw differs(
          Reason.GROUP_INDEX,
          local.layerName(),
          "group_index",
          local.groupIndex(),
          remote.groupIndex());
    }
    // Empty means not told: an older peer.
    if (!local.sharedGroupIds().isEmpty()
        && !remote.sharedGroupIds().isEmpty()
        && !local.sharedGroupIds().equals(remote.sharedGroupIds())) {
      throw differs(
          Reason.SHARED_GROUPS,
          local.layerName(),
          "shared_group_ids",
          local.sharedGroupIds(),
          remote.sharedGroupIds());
    }
  }

  private static PlanException differs(
      Reason reason, String layerName, String field, Object local, Object remote) {
    return new PlanException(
        reason,
        "layer="
            + layerName
            + ": "
            + field
            + " differs, prefiller="
            + local
            + ", decoder="
            + remote
            + "; run the same model and the same layout on both sides");
  }

  /**
   * Joins neighbours that lie one after another within a row on both sides, padding between them
   * included, exactly as vLLM does.
   *
   * <p>vLLM compares the order of slices and not their distances. Where distances differ between
   * the sides, its result has unequal lengths and must not be copied; {@link PeerPlan} joins by
   * {@link #mergeInStep} therefore.
   *
   * @param promoteFullRow whether a run that starts its row on both sides is made as long as the
   *     row, where rows are equally long
   */
  public static AlignedRegions merge(AlignedRegions regions, boolean promoteFullRow) {
    AlignedRegions merged = mergeRuns(regions, true, false);
    return promoteFullRow ? promote(merged) : merged;
  }

  /**
   * Joins neighbours as {@link #merge} does, where it is certain that each byte keeps its place:
   * slices must have the same distances on both sides.
   *
   * <p>What lies between slices, and behind them to the row's end, is padding only where both sides
   * tell their row offsets, cut their rows alike and have no slice without a partner. Otherwise it
   * may be another layer's: then only slices that touch are joined and no row is made full.
   *
   * @param complete whether every region of both sides is in {@code regions}
   */
  static AlignedRegions mergeInStep(AlignedRegions regions, boolean complete) {
    boolean sameRows = complete && sameRows(regions);
    AlignedRegions merged = mergeRuns(regions, sameRows, true);
    return sameRows ? dropCovered(promote(merged)) : merged;
  }

  /** The rows that a pair of slices lies in. */
  private record Rows(
      long local,
      long remote,
      long blockLen,
      long localBlocks,
      long remoteBlocks,
      int groupIndex,
      List<Integer> sharedGroupIds) {
    static Rows of(TransferRegion local, TransferRegion remote) {
      return new Rows(
          local.baseAddress() - local.rowOffset(),
          remote.baseAddress() - remote.rowOffset(),
          local.blockLen(),
          local.blockCount(),
          remote.blockCount(),
          local.groupIndex(),
          local.sharedGroupIds());
    }
  }

  /** Leaves out slices of rows that are copied whole anyway. */
  private static AlignedRegions dropCovered(AlignedRegions regions) {
    Set<Rows> whole = new HashSet<>();
    for (int i = 0; i < regions.size(); i++) {
      TransferRegion local = regions.local().get(i);
      if (local.rowOffset() == 0 && local.kvBlockLen() == local.blockLen()) {
        whole.add(Rows.of(local, regions.remote().get(i)));
      }
    }
    List<TransferRegion> localKept = new ArrayList<>();
    List<TransferRegion> remoteKept = new ArrayList<>();
    for (int i = 0; i < regions.size(); i++) {
      TransferRegion local = regions.local().get(i);
      TransferRegion remote = regions.remote().get(i);
      boolean covered =
          local.rowOffset() > 0
              && local.rowOffset() <= local.blockLen() - local.kvBlockLen()
              && whole.contains(Rows.of(local, remote));
      if (!covered) {
        localKept.add(local);
        remoteKept.add(remote);
      }
    }
    return new AlignedRegions(localKept, remoteKept);
  }

  private static boolean sameRows(AlignedRegions regions) {
    for (int i = 0; i < regions.size(); i++) {
      TransferRegion local = regions.local().get(i);
      TransferRegion remote = regions.remote().get(i);
      if (local.rowOffset() != remote.rowOffset() || local.blockLen() != remote.blockLen()) {
        return false;
      }
    }
    return true;
  }

  private static AlignedRegions mergeRuns(
      AlignedRegions regions, boolean overPadding, boolean inStep) {
    List<TransferRegion> local = regions.local();
    List<TransferRegion> remote = regions.remote();
    List<TransferRegion> localMerged = new ArrayList<>(local.size());
    List<TransferRegion> remoteMerged = new ArrayList<>(local.size());
    int first = 0;
    for (int i = 1; i <= local.size(); i++) {
      boolean padded = overPadding && (!inStep || local.get(first).rowOffset() >= 0);
      if (i < local.size()
          && follows(local, first, i, padded)
          && follows(remote, first, i, padded)
          && (!inStep || distance(local, first, i) == distance(remote, first, i))) {
        continue;
      }
      localMerged.add(span(local.get(first), local.get(i - 1)));
      remoteMerged.add(span(remote.get(first), remote.get(i - 1)));
      first = i;
    }
    return new AlignedRegions(localMerged, remoteMerged);
  }

  /** Whether region {@code i} follows its predecessor within the row that {@code first} began. */
  private static boolean follows(
      List<TransferRegion> regions, int first, int i, boolean overPadding) {
    TransferRegion start = regions.get(first);
    TransferRegion previous = regions.get(i - 1);
    TransferRegion next = regions.get(i);
    return previous.groupIndex() == next.groupIndex()
        && previous.sharedGroupIds().equals(next.sharedGroupIds())
        && previous.blockLen() == next.blockLen()
        && previous.blockCount() == next.blockCount()
        && (overPadding
            ? previous.kvEnd() <= next.baseAddress()
            : previous.kvEnd() == next.baseAddress())
        && next.kvEnd() - start.baseAddress() <= start.blockLen();
  }

  private static long distance(List<TransferRegion> regions, int first, int i) {
    return regions.get(i).baseAddress() - regions.get(first).baseAddress();
  }

  private static TransferRegion span(TransferRegion first, TransferRegion last) {
    return first.withKvBlockLen(last.kvEnd() - first.baseAddress());
  }

  /**
   * Makes runs that start a row as long as the row. A row's block ids belong to its group alone, so
   * nothing of others is touched, and consecutive blocks become one copy.
   */
  private static AlignedRegions promote(AlignedRegions regions) {
    List<TransferRegion> localRows = new ArrayList<>(regions.local());
    List<TransferRegion> remoteRows = new ArrayList<>(regions.remote());
    for (int i = 0; i < localRows.size(); i++) {
      TransferRegion local = localRows.get(i);
      TransferRegion remote = remoteRows.get(i);
      if (local.rowOffset() == 0
          && remote.rowOffset() == 0
          && local.blockLen() == remote.blockLen()
          && local.kvBlockLen() <= local.blockLen()
          && remote.kvBlockLen() <= remote.blockLen()) {
        localRows.set(i, local.withKvBlockLen(local.blockLen()));
        remoteRows.set(i, remote.withKvBlockLen(remote.blockLen()));
      }
    }
    return new AlignedRegions(localRows, remoteRows);
  }
}
