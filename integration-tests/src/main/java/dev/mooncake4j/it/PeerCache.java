package dev.mooncake4j.it;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The KV memory of one rank, off-heap, and what can be asked of its contents. One thread at a time;
 * the memory is the connector's too, from registration until the worker has closed.
 */
final class PeerCache implements AutoCloseable {
  private static final long PAGE = 4096;

  private final Arena arena = Arena.ofShared();
  private final PeerOptions options;
  private final int[] layers;
  private final long blockBytes;
  private final List<MemorySegment> layerMemory = new ArrayList<>();
  private final KvCacheLayout layout;

  PeerCache(PeerOptions options) {
    this.options = options;
    this.layers = options.layerIndices();
    this.blockBytes = options.blockBytes();
    long layerBytes = blockBytes * options.numBlocks();
    List<KvCacheRegion> regions = new ArrayList<>();
    MemorySegment one =
        options.oneAllocation() ? arena.allocate(layerBytes * layers.length, PAGE) : null;
    KvMemory all = one == null ? null : KvMemory.host(one);
    for (int i = 0; i < layers.length; i++) {
      MemorySegment own =
          one == null ? arena.allocate(layerBytes, PAGE) : one.asSlice(i * layerBytes, layerBytes);
      layerMemory.add(own);
      regions.add(
          KvCacheRegion.of(
              options.layerName(layers[i]),
              layers[i],
              all == null ? KvMemory.host(own) : all,
              all == null ? 0 : i * layerBytes,
              blockBytes,
              options.numBlocks()));
    }
    layout = new KvCacheLayout(regions);
    if (options.seed() != 0) {
      fill(options.seed());
    }
  }

  KvCacheLayout layout() {
    return layout;
  }

  int layerCount() {
    return layers.length;
  }

  void fill(long seed) {
    BlockPattern pattern = BlockPattern.of(options, seed);
    for (int i = 0; i < layers.length; i++) {
      pattern.fill(layerMemory.get(i), layers[i], options.numBlocks());
    }
  }

  /** Fills some blocks alone. */
  void fillBlocks(long seed, int[] blocks) {
    BlockPattern pattern = BlockPattern.of(options, seed);
    for (int i = 0; i < layers.length; i++) {
      for (int block : blocks) {
        pattern.fillBlock(layerMemory.get(i), layers[i], block);
      }
    }
  }

  void zero() {
    layerMemory.forEach(m -> m.fill((byte) 0));
  }

  /** SHA-256 over the blocks of all layers in order. */
  String sha256(int[] blocks) {
    return BlockPattern.sha256(layerMemory, blockBytes, blocks);
  }

  /** The same for each layer alone, by its name. */
  Map<String, String> sha256PerLayer(int[] blocks) {
    Map<String, String> byName = new LinkedHashMap<>();
    for (int i = 0; i < layers.length; i++) {
      List<MemorySegment> layer = List.of(layerMemory.get(i));
      byName.put(options.layerName(layers[i]), BlockPattern.sha256(layer, blockBytes, blocks));
    }
    return byName;
  }

  /** How many (layer, block) pairs hold any byte that is not zero. */
  long nonzero(int[] blocks) {
    MemorySegment zeros = MemorySegment.ofArray(new byte[(int) blockBytes]);
    long n = 0;
    for (MemorySegment memory : layerMemory) {
      for (int block : blocks) {
        if (block(memory, block).mismatch(zeros) >= 0) {
          n++;
        }
      }
    }
    return n;
  }

  /** The same, by a look at each block's first word alone. */
  long touched(int[] blocks) {
    long n = 0;
    for (MemorySegment memory : layerMemory) {
      for (int block : blocks) {
        if (block(memory, block).get(ValueLayout.JAVA_LONG_UNALIGNED, 0) != 0) {
          n++;
        }
      }
    }
    return n;
  }

  private MemorySegment block(MemorySegment memory, int block) {
    return memory.asSlice(block * blockBytes, blockBytes);
  }

  /** Frees the memory; the worker must have closed. */
  @Override
  public void close() {
    if (arena.scope().isAlive()) {
      arena.close();
    }
  }
}
