package dev.mooncake4j.bench.gpu;

import java.util.Random;

/** Where the blocks of a request lie in a cache. */
enum Pattern {
  /** One after the other. */
  CONTIGUOUS(0),
  /** Eight by eight. */
  RUNS_OF_8(8),
  /** Block by block. */
  SCATTERED(1);

  /** Blocks that lie together, 0 for all. */
  private final int run;

  Pattern(int run) {
    this.run = run;
  }

  /**
   * The ids of a request.
   *
   * @param count blocks, a multiple of 8
   * @param total blocks of the cache
   * @param seed the same seed makes the same ids
   */
  int[] ids(int count, int total, long seed) {
    if (count > total || count % 8 != 0 || total % 8 != 0) {
      throw new IllegalArgumentException(
          "count=" + count + " total=" + total + ": multiples of 8, and no more than there are");
    }
    Random random = new Random(seed);
    int[] ids = new int[count];
    if (run == 0) {
      int first = random.nextInt(total - count + 1);
      for (int i = 0; i < count; i++) {
        ids[i] = first + i;
      }
      return ids;
    }
    int[] runs = new int[total / run];
    for (int i = 0; i < runs.length; i++) {
      int j = random.nextInt(i + 1);
      runs[i] = runs[j];
      runs[j] = i;
    }
    for (int i = 0; i < count; i++) {
      ids[i] = runs[i / run] * run + i % run;
    }
    return ids;
  }
}
