package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The way from block ids to copies between one prefiller rank and one decoder rank.
 *
 * <p>{@link #prepare} does once per layout of a peer all that does not depend on a request: which
 * regions belong together, what each block's copy is, and up to which id addresses stay in their
 * region. {@link #plan} then runs over flat arrays. The copies are those of vLLM 0.33.0 or fewer:
 * the same bytes reach the same addresses.
 *
 * <p>Immutable and safe for use by many threads.
 */
public final class PeerPlan {

  /** As many as a {@link DescriptorList} takes. */
  private static final long MAX_DESCRIPTORS = 1L << 30;

  private final int groupCount;
  private final boolean[] skipNull;

  /** Blocks of memory behind an id, for each group. */
  private final int[] blocksPerId;

  /** Ids of a group must be below these for every address to stay in its region. */
  private final long[] localIdLimit;

  private final long[] remoteIdLimit;

  /** How many copies of this plan follow a group, once per run and once per block. */
  private final int[] perRun;

  private final int[] perBlock;

  /** Bytes of all copies of an id. */
  private final long[] bytesPerId;

  private final Copy[] copies;

  private final OpenArenas arenas;

  /** What is copied of each block of one group in one pair of regions. */
  private record Copy(
      TransferRegion local,
      TransferRegion remote,
      int group,
      long source,
      long destination,
      long length) {

    /** Whether neighbouring blocks touch on both sides, so that a run is one copy. */
    boolean whole() {
      return length == local.blockLen() && length == remote.blockLen();
    }
  }

  private PeerPlan(LocalCache cache, List<Copy> copies) {
    List<KvCacheGroup> groups = cache.spec().groups();
    this.groupCount = groups.size();
    this.skipNull = new boolean[groupCount];
    this.blocksPerId = new int[groupCount];
    this.localIdLimit = new long[groupCount];
    this.remoteIdLimit = new long[groupCount];
    this.perRun = new int[groupCount];
    this.perBlock = new int[groupCount];
    this.bytesPerId = new long[groupCount];
    this.copies = copies.toArray(new Copy[0]);
    this.arenas = cache.arenas();
    for (int g = 0; g < groupCount; g++) {
      boolean state = groups.get(g).kind() == KvCacheGroup.Kind.MAMBA;
      skipNull[g] = state;
      blocksPerId[g] = state ? 1 : cache.spec().physicalBlocksPerLogical();
    }
    Arrays.fill(localIdLimit, Long.MAX_VALUE);
    Arrays.fill(remoteIdLimit, Long.MAX_VALUE);
    for (Copy copy : copies) {
      int g = copy.group();
      bytesPerId[g] += copy.length() * blocksPerId[g];
      localIdLimit[g] = Math.min(localIdLimit[g], idLimit(copy.local(), g));
      remoteIdLimit[g] = Math.min(remoteIdLimit[g], idLimit(copy.remote(), g));
      if (copy.whole()) {
        perRun[g]++;
      } else {
        perBlock[g]++;
      }
    }
  }

  private long idLimit(TransferRegion region, int group) {
    long blocks =
        region.blockCount() > 0
            ? region.blockCount()
            : (Long.MAX_VALUE - region.baseAddress()) / region.blockLen();
    return blocks / blocksPerId[group];
  }

  /** What the copies' sources live in. */
  public OpenArenas arenas() {
    return arenas;
  }

  /**
   * Compares two layouts and prepares the copies between them.
   *
   * @param local the prefiller rank
   * @param remote the decoder rank, as its pull tells
   * @return a plan that is good for as long as both layouts are
   * @throws PlanException if the two do not fit; the message names the field and both values
   */
  public static PeerPlan prepare(LocalCache local, PeerLayout remote) {
    int tpSize = local.rank().tpSize();
    RankPairing.checkPaired(local.rank().tpRank(), tpSize, remote.tpRank(), remote.tpSize());
    RankPairing.targetStages(local.rank().ppRank(), local.rank().ppSize(), remote.ppSize());
    LayoutChecks.checkRegions("prefiller", local.regions(), local.spec().groups().size());
    LayoutChecks.checkRegions("decoder", remote.regions(), local.spec().groups().size());
    LayoutChecks.checkRowsNamed(local, remote);

    boolean partialLayers = local.rank().ppSize() != remote.ppSize();
    AlignedRegions regions =
        RegionAlignment.align(local.regions(), remote.regions(), partialLayers);
    LayoutChecks.checkLayerSet(local.regions(), remote.regions(), partialLayers);
    LayoutChecks.checkLengths(local, remote, regions);

    int heads = local.splittableHeads();
    boolean wholeBlocks =
        tpSize == remote.tpSize()
            || (local.replicated()
                && !SenderPlan.splitsHeads(remote.tpSize(), local.replicated(), heads));
    if (wholeBlocks) {
      // A block that is split by head must be split in each layer: no joining then.
      boolean complete =
          regions.size() == local.regions().size() && regions.size() == remote.regions().size();
      regions = RegionAlignment.mergeInStep(regions, complete);
    }
    List<Copy> copies = new ArrayList<>(regions.size());
    for (int i = 0; i < regions.size(); i++) {
      TransferRegion ours = regions.local().get(i);
      TransferRegion theirs = regions.remote().get(i);
      SenderPlan block =
          SenderPlan.of(
              local.rank().tpRank(),
              tpSize,
              remote.tpRank(),
              remote.tpSize(),
              ours.kvBlockLen(),
              theirs.kvBlockLen(),
              local.replicated(),
              heads);
      if (block.sends()) {
        addCopies(ours, theirs, block, copies);
      }
    }
    return new PeerPlan(local, copies);
  }

  private static void addCopies(
      TransferRegion ours, TransferRegion theirs, SenderPlan block, List<Copy> copies) {
    if (block.length() < 1
        || block.length() > ours.kvBlockLen() - block.sourceOffset()
        || block.length() > theirs.kvBlockLen() - block.destinationOffset()) {
      throw new PlanException(
          Reason.KV_BLOCK_LENGTH,
          "layer="
              + ours.layerName()
              + ": a copy of length="
              + block.length()
              + " from offset="
              + block.sourceOffset()
              + " to offset="
              + block.destinationOffset()
              + " leaves kv_block_len, prefiller="
              + ours.kvBlockLen()
              + ", decoder="
              + theirs.kvBlockLen());
    }
    if (ours.groups().isEmpty()) {
      throw new PlanException(
          Reason.GROUP_INDEX,
          "prefiller layer="
              + ours.layerName()
              + ": shared_group_ids=[] with group_index="
              + ours.groupIndex()
              + ": name the groups that share the region");
    }
    for (int group : ours.groups()) {
      copies.add(
          new Copy(
              ours,
              theirs,
              group,
              ours.baseAddress() + block.sourceOffset(),
              theirs.baseAddress() + block.destinationOffset(),
              block.length()));
    }
  }

  /**
   * Appends the copies of one request, layer by layer.
   *
   * <p>Of a group in which the prefiller holds more blocks than the decoder asks for, the last ones
   * are copied. A request without blocks has no copies.
   *
   * @param local the prefiller's blocks
   * @param remote the decoder's
   * @param runs scratch of the calling thread
   * @param out where the copies go; nothing is added if this throws
   * @throws PlanException if the numbers of groups or blocks do not fit, or an id leads out of its
   *     region
   */
  public void plan(BlockIds local, BlockIds remote, BlockRuns runs, DescriptorList out) {
    if (remote.isEmpty()) {
      return;
    }
    checkGroups(local, remote);
    runs.fill(local, remote, skipNull);
    add(runs, out);
  }

  /**
   * The same for several requests together, as if they were one: blocks of different requests that
   * lie side by side on both sides are one copy.
   *
   * @param local for each request the prefiller's blocks
   * @param remote for each request the decoder's; none may be empty
   * @throws PlanException as above, if that is so for any of the requests
   */
  public void plan(BlockIds[] local, BlockIds[] remote, BlockRuns runs, DescriptorList out) {
    for (int i = 0; i < local.length; i++) {
      checkGroups(local[i], remote[i]);
    }
    runs.fill(local, remote, skipNull);
    add(runs, out);
  }

  /** Bytes that a request's copies have together, with ids that are good. */
  public long bytes(BlockIds remote) {
    long bytes = 0;
    for (int g = 0; g < groupCount; g++) {
      bytes += bytesPerId[g] * (skipNull[g] ? BlockRuns.countBlocks(remote, g) : remote.size(g));
    }
    return bytes;
  }

  private void checkGroups(BlockIds local, BlockIds remote) {
    if (local.groupCount() != groupCount || remote.groupCount() != groupCount) {
      throw new PlanException(
          Reason.GROUP_COUNT,
          "kv cache groups differ, prefiller="
              + local.groupCount()
              + ", decoder="
              + remote.groupCount()
              + ", registered="
              + groupCount
              + "; run the same model on both sides");
    }
  }

  private void add(BlockRuns runs, DescriptorList out) {
    check(runs, out);
    for (Copy copy : copies) {
      // Regions that touch may be registered apart, and one write must not span two registrations.
      out.fence();
      if (copy.whole()) {
        addRuns(copy, runs, out);
      } else {
        addBlocks(copy, runs, out);
      }
    }
  }

  private void check(BlockRuns runs, DescriptorList out) {
    long descriptors = out.size();
    for (int g = 0; g < groupCount; g++) {
      if (runs.maxLocal(g) >= localIdLimit[g] || runs.maxRemote(g) >= remoteIdLimit[g]) {
        throw pastEnd(runs, g);
      }
      descriptors += (long) perRun[g] * (runs.endRun(g) - runs.firstRun(g));
      descriptors += (long) perBlock[g] * blocksPerId[g] * runs.blocks(g);
    }
    if (descriptors > MAX_DESCRIPTORS) {
      throw new PlanException(
          Reason.TOO_MANY_DESCRIPTORS,
          "descriptors="
              + descriptors
              + " are more than "
              + MAX_DESCRIPTORS
              + ": ask for fewer blocks at a time");
    }
  }

  private void addRuns(Copy copy, BlockRuns runs, DescriptorList out) {
    int group = copy.group();
    long stride = copy.length() * blocksPerId[group];
    long source = copy.source();
    long destination = copy.destination();
    for (int i = runs.firstRun(group), end = runs.endRun(group); i < end; i++) {
      out.add(
          source + runs.localStart(i) * stride,
          destination + runs.remoteStart(i) * stride,
          runs.length(i) * stride);
    }
  }

  private void addBlocks(Copy copy, BlockRuns runs, DescriptorList out) {
    int group = copy.group();
    long localStride = copy.local().blockLen();
    long remoteStride = copy.remote().blockLen();
    long length = copy.length();
    long perId = blocksPerId[group];
    for (int i = runs.firstRun(group), end = runs.endRun(group); i < end; i++) {
      long source = copy.source() + runs.localStart(i) * perId * localStride;
      long destination = copy.destination() + runs.remoteStart(i) * perId * remoteStride;
      for (long left = runs.length(i) * perId; left > 0; left--) {
        out.add(source, destination, length);
        source += localStride;
        destination += remoteStride;
      }
    }
  }

  /** Names the first region that a group's ids leave. */
  private PlanException pastEnd(BlockRuns runs, int group) {
    for (Copy copy : copies) {
      if (copy.group() != group) {
        continue;
      }
      if (runs.maxLocal(group) >= idLimit(copy.local(), group)) {
        return pastEnd("prefiller", copy.local(), group, runs.maxLocal(group));
      }
      if (runs.maxRemote(group) >= idLimit(copy.remote(), group)) {
        return pastEnd("decoder", copy.remote(), group, runs.maxRemote(group));
      }
    }
    throw new IllegalStateException("group=" + group + " leaves no region");
  }

  private PlanException pastEnd(String side, TransferRegion region, int group, int id) {
    return new PlanException(
        Reason.BLOCK_ID,
        side
            + " layer="
            + region.layerName()
            + ", group="
            + group
            + ": block_id="
            + id
            + " is past its region's end: base_addr="
            + region.baseAddress()
            + ", block_len="
            + region.blockLen()
            + ", block_count="
            + (region.blockCount() > 0 ? Long.toString(region.blockCount()) : "unknown")
            + ", blocks per id="
            + blocksPerId[group]);
  }
}
