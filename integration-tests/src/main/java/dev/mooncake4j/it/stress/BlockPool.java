package dev.mooncake4j.it.stress;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/**
 * A peer's KV memory and which of its blocks are free. A free block holds one byte value all over:
 * when it is taken, any other byte was written by somebody who had no business there. One thread.
 */
final class BlockPool implements AutoCloseable {
  static final int BLOCKS = 1024;
  static final int LAYERS = 4;
  static final int BLOCK_BYTES = 2048;
  static final int BLOCK_TOKENS = 16;

  private static final long PAGE = 4096;
  private static final byte FREE = (byte) 0xDB;

  private final Arena arena = Arena.ofShared();
  private final MemorySegment memory;
  private final MemorySegment untouched;
  private final BitSet free = new BitSet(BLOCKS);
  private final Random random;
  private int inUse;
  private long spoiled;

  BlockPool(long seed) {
    random = new Random(seed);
    memory = arena.allocate((long) LAYERS * BLOCKS * BLOCK_BYTES, PAGE);
    memory.fill(FREE);
    untouched = arena.allocate(BLOCK_BYTES, PAGE);
    untouched.fill(FREE);
    free.set(0, BLOCKS);
  }

  KvCacheLayout layout() {
    List<String> names = IntStream.range(0, LAYERS).mapToObj(i -> "layers." + i).toList();
    return KvCacheLayout.layersInOne(KvMemory.host(memory), names, BLOCK_BYTES, BLOCKS);
  }

  int freeBlocks() {
    return BLOCKS - inUse;
  }

  int inUse() {
    return inUse;
  }

  /** Bytes of free blocks that were written to; of those that are free now and of those taken. */
  long spoiled() {
    long now = spoiled;
    for (int id = free.nextSetBit(0); id >= 0; id = free.nextSetBit(id + 1)) {
      now += spoiledBytes(id);
    }
    return now;
  }

  /** Takes blocks; there must be enough of them. */
  int[] take(int n, boolean scattered) {
    int[] ids = scattered ? scattered(n) : contiguous(n);
    for (int id : ids) {
      spoiled += spoiledBytes(id);
      free.clear(id);
    }
    inUse += n;
    return ids;
  }

  private int[] scattered(int n) {
    List<Integer> ids = new ArrayList<>(free.stream().boxed().toList());
    int[] taken = new int[n];
    for (int i = 0; i < n; i++) {
      int last = ids.size() - 1;
      int drawn = random.nextInt(ids.size());
      taken[i] = ids.get(drawn);
      ids.set(drawn, ids.get(last));
      ids.removeLast();
    }
    return taken;
  }

  /** A run of free blocks, or where there is none so long, any. */
  private int[] contiguous(int n) {
    int from = random.nextInt(BLOCKS);
    for (int first = free.nextSetBit(from); first >= 0; ) {
      int end = free.nextClearBit(first);
      if (end - first >= n) {
        return IntStream.range(first, first + n).toArray();
      }
      first = free.nextSetBit(end);
    }
    return scattered(n);
  }

  /** Gives blocks back: nobody may read or write them any more. */
  void giveBack(int... ids) {
    for (int id : ids) {
      if (free.get(id)) {
        throw new IllegalStateException("block_id=" + id + " is free already");
      }
      for (int layer = 0; layer < LAYERS; layer++) {
        block(layer, id).fill(FREE);
      }
      free.set(id);
    }
    inUse -= ids.length;
  }

  /** Writes the KV of a prompt into its blocks. */
  void fill(KvPattern pattern, int... ids) {
    for (int layer = 0; layer < LAYERS; layer++) {
      for (int i = 0; i < ids.length; i++) {
        pattern.fill(block(layer, ids[i]), layer, i);
      }
    }
  }

  /** Bytes that are not the KV of a prompt from one of its blocks on. */
  long wrongBytes(KvPattern pattern, int firstPosition, int... ids) {
    long wrong = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
      for (int i = 0; i < ids.length; i++) {
        wrong += pattern.wrongBytes(block(layer, ids[i]), layer, firstPosition + i);
      }
    }
    return wrong;
  }

  static long bytes(int blocks) {
    return (long) blocks * LAYERS * BLOCK_BYTES;
  }

  private long spoiledBytes(int id) {
    long n = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
      MemorySegment block = block(layer, id);
      if (block.mismatch(untouched) >= 0) {
        for (long at = 0; at < BLOCK_BYTES; at++) {
          n += block.get(ValueLayout.JAVA_BYTE, at) == FREE ? 0 : 1;
        }
      }
    }
    return n;
  }

  private MemorySegment block(int layer, int id) {
    return memory.asSlice(((long) layer * BLOCKS + id) * BLOCK_BYTES, BLOCK_BYTES);
  }

  @Override
  public void close() {
    arena.close();
  }
}
