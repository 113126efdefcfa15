package dev.mooncake4j.core.schedules;

import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/** The blocks of one rank's cache, and who has each. */
final class BlockPool {
  private final int size;
  private final Map<Integer, Object> owners = new HashMap<>();

  BlockPool(int size) {
    this.size = size;
  }

  /** Free blocks at random, or {@code null} if there are not so many. */
  int @Nullable [] take(int count, Object owner, SplittableRandom random) {
    if (size - owners.size() < count) {
      return null;
    }
    int[] taken = new int[count];
    for (int i = 0; i < count; i++) {
      int block = random.nextInt(size);
      while (owners.containsKey(block)) {
        block = (block + 1) % size;
      }
      owners.put(block, owner);
      taken[i] = block;
    }
    return taken;
  }

  void free(int[] blocks, Object owner) {
    for (int block : blocks) {
      if (!owners.remove(block, owner)) {
        throw new AssertionError("block=" + block + " was not of " + owner);
      }
    }
  }

  @Nullable Object owner(int block) {
    return owners.get(block);
  }

  boolean isEmpty() {
    return owners.isEmpty();
  }
}
