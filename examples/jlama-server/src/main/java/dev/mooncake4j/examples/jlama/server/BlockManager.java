package dev.mooncake4j.examples.jlama.server;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.SequencedSet;
import org.jspecify.annotations.Nullable;

/**
 * Gives out blocks, counts who uses them, and finds those that hold a prompt's beginning already.
 *
 * <p>A block in use is never given out again. One that nobody uses any more stays as it is, to be
 * found by its name, until it is the one that has been unused for longest and a block is needed.
 * For the engine's thread alone.
 */
final class BlockManager {
  private final int[] users;
  private final @Nullable String[] names;
  private final Map<String, Integer> byName = new HashMap<>();
  private final ArrayDeque<Integer> blank = new ArrayDeque<>();

  /** Named blocks that nobody uses, the one unused for longest first. */
  private final SequencedSet<Integer> idle = new LinkedHashSet<>();

  BlockManager(int blocks) {
    this.users = new int[blocks];
    this.names = new @Nullable String[blocks];
    for (int block = 0; block < blocks; block++) {
      blank.add(block);
    }
  }

  /** The blocks that hold the first full blocks of a request, at most so many; now in use. */
  int[] find(BlockHashes hashes, int most) {
    int[] found = new int[Math.min(most, hashes.size())];
    int n = 0;
    while (n < found.length) {
      Integer block = byName.get(hashes.get(n));
      if (block == null) {
        break;
      }
      found[n++] = block;
    }
    int[] blocks = Arrays.copyOf(found, n);
    for (int block : blocks) {
      if (users[block]++ == 0) {
        idle.remove(block);
      }
    }
    return blocks;
  }

  /** So many blocks, now in use, or {@code null} if there are fewer. */
  int @Nullable [] allocate(int count) {
    if (count > free()) {
      return null;
    }
    int[] blocks = new int[count];
    for (int i = 0; i < count; i++) {
      Integer block = blank.poll();
      if (block == null) {
        block = idle.removeFirst();
        forget(block);
      }
      users[block] = 1;
      blocks[i] = block;
    }
    return blocks;
  }

  /** One user fewer for each. */
  void release(int[] blocks) {
    // The end of a prompt goes before its beginning, without which it cannot be found.
    for (int i = blocks.length - 1; i >= 0; i--) {
      int block = blocks[i];
      if (users[block] == 0) {
        throw new IllegalStateException("block=" + block + " is released and in nobody's use");
      }
      if (--users[block] == 0) {
        if (names[block] == null) {
          blank.add(block);
        } else {
          idle.addLast(block);
        }
      }
    }
  }

  /** The block holds valid KV of all its tokens: it can be found from now on. */
  void name(int block, String name) {
    if (names[block] == null && byName.putIfAbsent(name, block) == null) {
      names[block] = name;
    }
  }

  private void forget(int block) {
    String name = names[block];
    if (name != null) {
      byName.remove(name);
      names[block] = null;
    }
  }

  /** Blocks that can be given out. */
  int free() {
    return blank.size() + idle.size();
  }
}
