package dev.mooncake4j.it;

import java.util.Arrays;
import java.util.Random;
import java.util.stream.IntStream;

/** Block ids for a test. */
final class Blocks {
  private Blocks() {}

  /** {@code n} ids in a row. */
  static int[] contiguous(int first, int n) {
    return IntStream.range(first, first + n).toArray();
  }

  /** {@code n} even ids below {@code numBlocks}, shuffled: none is followed by its neighbour. */
  static int[] scattered(int n, int numBlocks, Random random) {
    int[] even = IntStream.range(0, numBlocks / 2).map(i -> 2 * i).toArray();
    for (int i = even.length - 1; i > 0; i--) {
      int j = random.nextInt(i + 1);
      int swapped = even[i];
      even[i] = even[j];
      even[j] = swapped;
    }
    return Arrays.copyOf(even, n);
  }

  /** All ids below {@code numBlocks} but the given ones. */
  static int[] others(int numBlocks, int... taken) {
    boolean[] isTaken = new boolean[numBlocks];
    for (int id : taken) {
      isTaken[id] = true;
    }
    return IntStream.range(0, numBlocks).filter(i -> !isTaken[i]).toArray();
  }

  /** The last {@code n} ids. */
  static int[] last(int n, int... ids) {
    return Arrays.copyOfRange(ids, ids.length - n, ids.length);
  }

  /** The part of the ids from {@code from} on, {@code n} long. */
  static int[] part(int from, int n, int... ids) {
    return Arrays.copyOfRange(ids, from, from + n);
  }
}
