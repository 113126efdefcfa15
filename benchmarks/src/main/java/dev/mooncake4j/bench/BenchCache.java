package dev.mooncake4j.bench;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.it.BlockPattern;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The KV memory of one peer: all layers in one piece outside the heap, which lives as long as the
 * process. One thread at a time.
 */
final class BenchCache {
  private static final long PAGE = 4096;

  private final int layers;
  private final int blocks;
  private final int blockBytes;
  private final MemorySegment memory;

  BenchCache(int layers, int blocks, int blockBytes) {
    this.layers = layers;
    this.blocks = blocks;
    this.blockBytes = blockBytes;
    this.memory = Arena.global().allocate((long) layers * blocks * blockBytes, PAGE);
  }

  KvCacheLayout layout(String layerPrefix) {
    List<String> names = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      names.add(layerPrefix.replace("{}", String.valueOf(layer)));
    }
    return KvCacheLayout.layersInOne(KvMemory.host(memory), names, blockBytes, blocks);
  }

  /** What block contents are by a seed's formula; 0 makes them zero. Touches every page. */
  void fill(long seed) {
    if (seed == 0) {
      memory.fill((byte) 0);
      return;
    }
    BlockPattern pattern = new BlockPattern(seed, 0, blockBytes / Long.BYTES);
    for (int layer = 0; layer < layers; layer++) {
      pattern.fill(layerMemory(layer), layer, blocks);
    }
  }

  /** Makes some blocks of all layers zero. */
  void zero(int[] ids) {
    for (int layer = 0; layer < layers; layer++) {
      for (int id : ids) {
        memory.asSlice(offset(layer, id), blockBytes).fill((byte) 0);
      }
    }
  }

  long address() {
    return memory.address();
  }

  long bytes() {
    return memory.byteSize();
  }

  /** Bytes from the start of the memory to a block. */
  long offset(int layer, int block) {
    return ((long) layer * blocks + block) * blockBytes;
  }

  int layers() {
    return layers;
  }

  int blockBytes() {
    return blockBytes;
  }

  /** SHA-256 over the blocks of all layers in order, as hexadecimal digits. */
  String sha256(int[] ids) {
    List<MemorySegment> all = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      all.add(layerMemory(layer));
    }
    return BlockPattern.sha256(all, blockBytes, ids);
  }

  private MemorySegment layerMemory(int layer) {
    return memory.asSlice(offset(layer, 0), (long) blocks * blockBytes);
  }
}
