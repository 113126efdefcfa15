package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.Arrays;

/**
 * The block ids of one request as runs that are consecutive on both sides, group after group.
 *
 * <p>They are found once and used for every layer. Made to be filled again and again without
 * allocating: it keeps the memory of its largest use, 12 bytes a run. One thread at a time; a
 * thread that plans keeps one and passes it to {@link PeerPlan#plan}.
 */
public final class BlockRuns {
  private static final int FIRST_CAPACITY = 64;

  /**
   * Id of the block that stands for "no state here" in a Mamba group; vLLM's null block. It is on
   * both sides' lists and is left out of the count on both.
   */
  private static final int NULL_BLOCK = 0;

  /**
   * Ids that one call takes: a method that is called often is compiled within the first requests,
   * one that loops over thousands of ids long after.
   */
  private static final int PIECE = 64;

  private final int[] localPiece = new int[PIECE];
  private final int[] remotePiece = new int[PIECE];
  private int[] localStart = new int[FIRST_CAPACITY];
  private int[] remoteStart = new int[FIRST_CAPACITY];
  private int[] length = new int[FIRST_CAPACITY];
  private int size;

  /** Runs, blocks and largest ids of each group: four ints a group. */
  private int[] groups = new int[4];

  private int groupCount;

  // Of the group that is being filled.
  private int blocks;
  private int maxLocal;
  private int maxRemote;

  /** Without any run. */
  public BlockRuns() {}

  /**
   * Forgets the last request and takes the runs of the next one.
   *
   * <p>Where this side has more blocks than the other asks for, the first ones are left out: the
   * other has them already. Ids are not checked but for being below 0.
   *
   * @param local this side's ids
   * @param remote the other's, of as many groups
   * @param skipNull for each group, whether blocks of id 0 are left out on both sides
   * @throws PlanException if the other side asks for more blocks than there are, or an id is below
   *     0
   */
  public void fill(BlockIds local, BlockIds remote, boolean[] skipNull) {
    clear(remote.totalSize(), skipNull.length);
    for (int g = 0; g < skipNull.length; g++) {
      addGroup(local, remote, g, skipNull[g]);
      endGroup(g);
    }
  }

  /**
   * The same for several requests at once, the runs of each group in the requests' order.
   *
   * @param local for each request this side's ids
   * @param remote for each request the other's
   */
  public void fill(BlockIds[] local, BlockIds[] remote, boolean[] skipNull) {
    int room = 0;
    for (BlockIds ids : remote) {
      room = Math.addExact(room, ids.totalSize());
    }
    clear(room, skipNull.length);
    for (int g = 0; g < skipNull.length; g++) {
      for (int i = 0; i < local.length; i++) {
        addGroup(local[i], remote[i], g, skipNull[g]);
      }
      endGroup(g);
    }
  }

  private void clear(int room, int groupsToCome) {
    size = 0;
    groupCount = 0;
    if (groups.length < 4 * groupsToCome) {
      groups = new int[4 * groupsToCome];
    }
    if (length.length < room) {
      int capacity = Math.max(room, length.length + (length.length >> 1));
      localStart = Arrays.copyOf(localStart, capacity);
      remoteStart = Arrays.copyOf(remoteStart, capacity);
      length = Arrays.copyOf(length, capacity);
    }
    startGroup();
  }

  private void startGroup() {
    blocks = 0;
    maxLocal = -1;
    maxRemote = -1;
  }

  private void endGroup(int group) {
    int at = 4 * group;
    groups[at] = size;
    groups[at + 1] = blocks;
    groups[at + 2] = maxLocal;
    groups[at + 3] = maxRemote;
    groupCount = group + 1;
    startGroup();
  }

  /** Adds a request's blocks to those that the group has already, none of them joined to those. */
  private void addGroup(BlockIds local, BlockIds remote, int group, boolean skipNull) {
    int held = skipNull ? countBlocks(local, group) : local.size(group);
    int asked = skipNull ? countBlocks(remote, group) : remote.size(group);
    if (asked > held) {
      throw new PlanException(
          Reason.BLOCK_COUNT,
          "group="
              + group
              + ": the decoder asks for blocks="
              + asked
              + " and the prefiller holds blocks="
              + held
              + "; ask for no more than the prompt fills");
    }
    int i = skipNull ? pastBlocks(local, group, held - asked) : held - asked;
    int j = 0;
    for (int done = 0; done < asked; done += PIECE) {
      int count = Math.min(PIECE, asked - done);
      i = take(local, group, i, skipNull, localPiece, count);
      j = take(remote, group, j, skipNull, remotePiece, count);
      if (!addPiece(count, done > 0)) {
        throw negative(local, remote, group);
      }
    }
    blocks += asked;
  }

  /**
   * Adds pairs of ids; false if one is below 0.
   *
   * @param joins whether the first may go on with the last run
   */
  private boolean addPiece(int count, boolean joins) {
    int[] locals = localStart;
    int[] remotes = remoteStart;
    int[] lengths = length;
    int run = size - 1;
    int runEndLocal = joins ? locals[run] + lengths[run] : -1;
    int runEndRemote = joins ? remotes[run] + lengths[run] : -1;
    int highestLocal = maxLocal;
    int highestRemote = maxRemote;
    int signs = 0;
    for (int k = 0; k < count; k++) {
      int l = localPiece[k];
      int r = remotePiece[k];
      signs |= l | r;
      highestLocal = Math.max(highestLocal, l);
      highestRemote = Math.max(highestRemote, r);
      if ((joins || k > 0) && l == runEndLocal && r == runEndRemote) {
        lengths[run]++;
      } else {
        run++;
        locals[run] = l;
        remotes[run] = r;
        lengths[run] = 1;
      }
      runEndLocal = l + 1;
      runEndRemote = r + 1;
    }
    size = run + 1;
    maxLocal = highestLocal;
    maxRemote = highestRemote;
    return signs >= 0;
  }

  /** Takes the next ids of blocks; returns the index after them. */
  private static int take(
      BlockIds ids, int group, int from, boolean skipNull, int[] piece, int count) {
    if (!skipNull) {
      ids.copyTo(group, from, piece, 0, count);
      return from + count;
    }
    int i = from;
    for (int k = 0; k < count; i++) {
      int id = ids.get(group, i);
      if (id != NULL_BLOCK) {
        piece[k++] = id;
      }
    }
    return i;
  }

  /** The index after so many blocks. */
  private static int pastBlocks(BlockIds ids, int group, int count) {
    int i = 0;
    for (int passed = 0; passed < count; i++) {
      if (ids.get(group, i) != NULL_BLOCK) {
        passed++;
      }
    }
    return i;
  }

  static int countBlocks(BlockIds ids, int group) {
    int n = 0;
    for (int i = 0; i < ids.size(group); i++) {
      if (ids.get(group, i) != NULL_BLOCK) {
        n++;
      }
    }
    return n;
  }

  private static PlanException negative(BlockIds local, BlockIds remote, int group) {
    int l = firstNegative(local, group);
    boolean ours = l < local.size(group);
    int index = ours ? l : firstNegative(remote, group);
    return new PlanException(
        Reason.BLOCK_ID,
        "group="
            + group
            + ": "
            + (ours ? "prefiller" : "decoder")
            + " block_id="
            + (ours ? local : remote).get(group, index)
            + " at index="
            + index
            + " is below 0");
  }

  private static int firstNegative(BlockIds ids, int group) {
    int i = 0;
    while (i < ids.size(group) && ids.get(group, i) >= 0) {
      i++;
    }
    return i;
  }

  /** Number of runs of all groups. */
  public int size() {
    return size;
  }

  /** Number of groups. */
  public int groupCount() {
    return groupCount;
  }

  /** Index of a group's first run. */
  public int firstRun(int group) {
    return group == 0 ? 0 : groups[4 * (group - 1)];
  }

  /** Index past a group's last run. */
  public int endRun(int group) {
    return groups[4 * group];
  }

  /** Number of blocks in a group's runs. */
  public int blocks(int group) {
    return groups[4 * group + 1];
  }

  /** A group's largest id on this side, or -1. */
  int maxLocal(int group) {
    return groups[4 * group + 2];
  }

  /** A group's largest id on the other side, or -1. */
  int maxRemote(int group) {
    return groups[4 * group + 3];
  }

  /** First id of a run on this side. */
  public int localStart(int run) {
    return localStart[run];
  }

  /** First id of a run on the other side. */
  public int remoteStart(int run) {
    return remoteStart[run];
  }

  /** Number of blocks in a run. */
  public int length(int run) {
    return length[run];
  }
}
