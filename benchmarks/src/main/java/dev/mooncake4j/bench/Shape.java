package dev.mooncake4j.bench;

import java.util.Locale;
import java.util.random.RandomGenerator;

/**
 * Requests of one kind that are made at once.
 *
 * @param requests how many
 * @param blocks blocks of each
 * @param scattered whether a request's blocks lie in any order, or one behind the other
 */
record Shape(int requests, int blocks, boolean scattered) {
  int totalBlocks() {
    return requests * blocks;
  }

  String mode() {
    return scattered ? "scattered" : "contiguous";
  }

  /**
   * Ids for all requests, one behind the other.
   *
   * @param of number of blocks that there are
   */
  int[] ids(int of, RandomGenerator random) {
    int count = totalBlocks();
    if (count > of) {
      throw new IllegalArgumentException("blocks=" + count + " are more than there are: " + of);
    }
    int[] ids = new int[count];
    if (!scattered) {
      int first = random.nextInt(of - count + 1);
      for (int i = 0; i < count; i++) {
        ids[i] = first + i;
      }
      return ids;
    }
    int[] all = new int[of];
    for (int i = 0; i < of; i++) {
      int j = random.nextInt(i + 1);
      all[i] = all[j];
      all[j] = i;
    }
    System.arraycopy(all, 0, ids, 0, count);
    return ids;
  }

  @Override
  public String toString() {
    return requests == 1
        ? String.format(Locale.ROOT, "%d %s", blocks, mode())
        : String.format(Locale.ROOT, "%d x %d %s", requests, blocks, mode());
  }
}
