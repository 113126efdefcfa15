package dev.mooncake4j.core.scheduler;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The blocks of a prefill that goes on whose tokens are all computed, and how many there will be.
 *
 * <p>Of full attention alone: a sliding window's blocks and a state change until the prefill ends,
 * so that such a group has no finished blocks here and a total of 0.
 *
 * @param blocks for each group the finished ones, from the prompt's first on
 * @param totals for each group how many the whole prompt has
 */
record FinishedBlocks(BlockIds blocks, List<Integer> totals) {

  /**
   * What is finished of a prompt of {@code promptTokens}, of which {@code finishedTokens} are.
   *
   * @throws IllegalArgumentException if a group has fewer blocks than are finished
   */
  static FinishedBlocks of(
      KvCacheSpec spec, int promptTokens, BlockIds blocks, int finishedTokens) {
    int[][] finished = new int[spec.groups().size()][];
    List<Integer> totals = new ArrayList<>(finished.length);
    for (int g = 0; g < finished.length; g++) {
      KvCacheGroup group = spec.groups().get(g);
      int[] held = g < blocks.groupCount() ? blocks.toArray(g) : new int[0];
      boolean early = group.kind() == KvCacheGroup.Kind.FULL_ATTENTION;
      int full = early ? Math.min(finishedTokens, promptTokens) / group.blockTokens() : 0;
      if (full > held.length) {
        throw new IllegalArgumentException(
            "finished_tokens="
                + finishedTokens
                + " fill blocks="
                + full
                + " of group="
                + g
                + ", of which blocks="
                + held.length
                + " are given");
      }
      finished[g] = Arrays.copyOf(held, full);
      // A server that takes more than the prompt needs gives as many at the end, all the same.
      totals.add(
          early ? Math.max(held.length, Math.ceilDiv(promptTokens, group.blockTokens())) : 0);
    }
    return new FinishedBlocks(BlockIds.ofGroups(finished), totals);
  }

  boolean isEmpty() {
    return blocks.isEmpty();
  }

  /** Whether this only goes further than {@code earlier} did. */
  boolean continues(FinishedBlocks earlier) {
    if (!totals.equals(earlier.totals)) {
      return false;
    }
    for (int g = 0; g < totals.size(); g++) {
      int[] before = earlier.blocks.toArray(g);
      int[] now = blocks.toArray(g);
      if (now.length < before.length
          || !Arrays.equals(before, 0, before.length, now, 0, before.length)) {
        return false;
      }
    }
    return true;
  }
}
