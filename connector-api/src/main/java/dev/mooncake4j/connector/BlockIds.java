package dev.mooncake4j.connector;

import java.io.Serializable;
import java.util.Arrays;

/**
 * The ids of the cache blocks of one request: one list per KV cache group, in the order of the
 * tokens they hold.
 *
 * <p>A model with full attention alone has one group. Ids are only unique within a group. {@link
 * #none()} has no groups at all and stands for "no blocks": as a pull it only releases the
 * prefiller's blocks. Immutable.
 */
public final class BlockIds implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final BlockIds NONE = new BlockIds(new int[0][]);

  private final int[][] groups;

  private BlockIds(int[][] groups) {
    this.groups = groups;
  }

  /** No groups and no blocks. */
  public static BlockIds none() {
    return NONE;
  }

  /** The ids of a model with one KV cache group; the array is copied. */
  public static BlockIds of(int... ids) {
    return new BlockIds(new int[][] {ids.clone()});
  }

  /** The ids of each group in turn; the arrays are copied. */
  public static BlockIds ofGroups(int[]... groups) {
    if (groups.length == 0) {
      return NONE;
    }
    int[][] copy = new int[groups.length][];
    for (int g = 0; g < groups.length; g++) {
      copy[g] = groups[g].clone();
    }
    return new BlockIds(copy);
  }

  /** Number of groups; 0 for {@link #none()}. */
  public int groupCount() {
    return groups.length;
  }

  /** Number of blocks in a group. */
  public int size(int group) {
    return groups[group].length;
  }

  /** Number of blocks in all groups. */
  public int totalSize() {
    int n = 0;
    for (int[] group : groups) {
      n += group.length;
    }
    return n;
  }

  /** Whether there is no block in any group. */
  public boolean isEmpty() {
    return totalSize() == 0;
  }

  /** The id at a position of a group. */
  public int get(int group, int index) {
    return groups[group][index];
  }

  /** A copy of a group's ids. */
  public int[] toArray(int group) {
    return groups[group].clone();
  }

  /**
   * Copies some of a group's ids, for a reader that goes through many without a copy of them all.
   *
   * @param group which group
   * @param from position of the first in the group
   * @param target where they go
   * @param at position of the first in {@code target}
   * @param count how many
   * @throws IndexOutOfBoundsException if the group has not as many from there on, or the target no
   *     room for them; nothing is copied then
   */
  public void copyTo(int group, int from, int[] target, int at, int count) {
    System.arraycopy(groups[group], from, target, at, count);
  }

  /** The last {@code n} ids of each group (all of a group that has fewer). */
  public BlockIds last(int n) {
    if (n < 0) {
      throw new IllegalArgumentException("n=" + n + " is negative");
    }
    int[][] copy = new int[groups.length][];
    for (int g = 0; g < groups.length; g++) {
      int from = Math.max(0, groups[g].length - n);
      copy[g] = Arrays.copyOfRange(groups[g], from, groups[g].length);
    }
    return copy.length == 0 ? NONE : new BlockIds(copy);
  }

  @Override
  public boolean equals(Object o) {
    return o instanceof BlockIds other && Arrays.deepEquals(groups, other.groups);
  }

  @Override
  public int hashCode() {
    return Arrays.deepHashCode(groups);
  }

  @Override
  public String toString() {
    return totalSize() <= 32
        ? Arrays.deepToString(groups)
        : "BlockIds[groups=" + groups.length + ", blocks=" + totalSize() + "]";
  }
}
