package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.core.plan.LocalCache;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/** The KV memory of one rank: layers one after another, each of equal blocks of bytes. */
public final class TestCache {
  private final MemorySegment memory;
  private final KvCacheLayout layout;
  private final int layers;
  private final int blockBytes;
  private final int blocks;
  private final KvCacheSpec spec;

  /** Memory that lives as long as the arena, of a model of full attention. */
  public TestCache(Arena arena, int layers, int blocks, int blockBytes) {
    this(arena, layers, blocks, blockBytes, KvCacheSpec.fullAttention(16));
  }

  /** The same of a model of one cache group, or of one for each layer. */
  TestCache(Arena arena, int layers, int blocks, int blockBytes, KvCacheSpec spec) {
    this.spec = spec;
    this.layers = layers;
    this.blocks = blocks;
    this.blockBytes = blockBytes;
    this.memory = arena.allocate((long) layers * blocks * blockBytes, 64);
    KvMemory kv = KvMemory.host(memory);
    List<KvCacheRegion> regions = new ArrayList<>();
    for (int i = 0; i < layers; i++) {
      int group = spec.groups().size() == 1 ? 0 : i;
      long offset = (long) i * blocks * blockBytes;
      regions.add(
          new KvCacheRegion(
              "model.layers." + i,
              i,
              group,
              kv,
              offset,
              blockBytes,
              blockBytes,
              blocks,
              List.of(group),
              -1));
    }
    this.layout = new KvCacheLayout(regions);
  }

  /** As a server gives it. */
  public KvCacheLayout layout() {
    return layout;
  }

  /** As the planner takes it. */
  public LocalCache local(RankLayout rank, KvCacheSpec spec) {
    return LocalCache.of(rank, spec, layout);
  }

  /** As the planner takes it, of the model that it is of. */
  LocalCache local(RankLayout rank) {
    return local(rank, spec);
  }

  /** As an engine takes it. */
  public List<MemoryRange> ranges() {
    return List.of(new MemoryRange(memory.address(), memory.byteSize(), "cpu:0"));
  }

  /** Number of blocks. */
  public int blocks() {
    return blocks;
  }

  /** Puts a pattern of this number into these blocks. */
  public void fill(int pattern, int... ids) {
    for (int id : ids) {
      for (int layer = 0; layer < layers; layer++) {
        long at = at(layer, id);
        for (int i = 0; i < blockBytes; i++) {
          memory.set(ValueLayout.JAVA_BYTE, at + i, value(pattern, layer, i));
        }
      }
    }
  }

  /** Whether a block holds all of the pattern of this number. */
  public boolean holds(int pattern, int id) {
    for (int layer = 0; layer < layers; layer++) {
      if (!holds(pattern, id, layer)) {
        return false;
      }
    }
    return true;
  }

  /** Whether a block holds one layer's part of the pattern of this number. */
  public boolean holds(int pattern, int id, int layer) {
    long at = at(layer, id);
    for (int i = 0; i < blockBytes; i++) {
      if (memory.get(ValueLayout.JAVA_BYTE, at + i) != value(pattern, layer, i)) {
        return false;
      }
    }
    return true;
  }

  /** Whether an address lies in this memory. */
  public boolean contains(long address) {
    return address >= memory.address() && address < memory.address() + memory.byteSize();
  }

  /** The block that an address of this memory lies in. */
  public int blockAt(long address) {
    return (int) ((address - memory.address()) / blockBytes % blocks);
  }

  private long at(int layer, int id) {
    return ((long) layer * blocks + id) * blockBytes;
  }

  private static byte value(int pattern, int layer, int i) {
    return (byte) (pattern * 31 + layer * 7 + i * 13 + 1);
  }
}
