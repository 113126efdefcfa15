package dev.mooncake4j.examples.demo;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** A paged KV cache as a server keeps one: layers one after another, blocks given out at random. */
final class DemoCache {
  private static final byte POISON = (byte) 0xA5;

  private final RealKv kv;
  private final int blocks;
  private final MemorySegment memory;
  private final List<Integer> free = new ArrayList<>();

  DemoCache(RealKv kv, int blocks, Arena arena, long seed) {
    this.kv = kv;
    this.blocks = blocks;
    this.memory = arena.allocate((long) kv.layers() * blocks * kv.blockBytes(), 4096);
    memory.fill(POISON);
    for (int i = 0; i < blocks; i++) {
      free.add(i);
    }
    Collections.shuffle(free, new Random(seed));
  }

  KvCacheLayout layout() {
    List<String> names = new ArrayList<>();
    for (int layer = 0; layer < kv.layers(); layer++) {
      names.add("model.layers." + layer + ".self_attn.attn");
    }
    return KvCacheLayout.layersInOne(KvMemory.host(memory), names, kv.blockBytes(), blocks);
  }

  synchronized int[] allocate(int count) {
    if (free.size() < count) {
      throw new IllegalStateException("free_blocks=" + free.size() + " of " + count + " wanted");
    }
    int[] ids = new int[count];
    for (int i = 0; i < count; i++) {
      ids[i] = free.removeLast();
    }
    return ids;
  }

  synchronized void release(int[] ids) {
    for (int id : ids) {
      free.addFirst(id);
    }
  }

  synchronized int freeBlocks() {
    return free.size();
  }

  /** What a prefill does: the KV of the whole prompt into its blocks. */
  void prefill(int[] ids) {
    for (int layer = 0; layer < kv.layers(); layer++) {
      for (int i = 0; i < ids.length; i++) {
        kv.fill(layer, i, block(layer, ids[i]));
      }
    }
  }

  void poison(int[] ids) {
    for (int layer = 0; layer < kv.layers(); layer++) {
      for (int id : ids) {
        block(layer, id).fill(POISON);
      }
    }
  }

  /** Wrong bytes in the blocks that should hold the prompt's blocks from {@code first} on. */
  long differences(int[] ids, int first) {
    long wrong = 0;
    for (int layer = 0; layer < kv.layers(); layer++) {
      for (int i = 0; i < ids.length; i++) {
        wrong += kv.differences(layer, first + i, block(layer, ids[i]));
      }
    }
    return wrong;
  }

  long bytes(int blockCount) {
    return (long) blockCount * kv.layers() * kv.blockBytes();
  }

  private MemorySegment block(int layer, int id) {
    return memory.asSlice(((long) layer * blocks + id) * kv.blockBytes(), kv.blockBytes());
  }
}
