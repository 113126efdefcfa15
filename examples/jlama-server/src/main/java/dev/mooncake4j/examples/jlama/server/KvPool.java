package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The memory of the paged KV cache: [layer][K, V][block][token of the block][row], off-heap, in one
 * piece, registered with the transfer engine as two regions for each layer.
 *
 * <p>Jlama's own pages cannot be this cache. A block id is shared: by all requests that begin with
 * the same tokens, and by a request and the transfer that fetches its blocks when it is over. A
 * page of Jlama's belongs to one session from its first token to its last, with no way to have a
 * token's row lie elsewhere. So the KV of a request is copied between its blocks and the page of
 * the session that computes it, from one off-heap segment to another: 46 KB a token, some
 * microseconds beside the tens of milliseconds that computing it takes.
 */
final class KvPool {
  static final int BLOCK_TOKENS = 16;

  private static final long ALIGNMENT = 4096;

  private final int layers;
  private final int rowBytes;
  private final int blocks;
  private final MemorySegment memory;

  /** Allocates the memory, which lives as long as the arena. */
  KvPool(int layers, int rowBytes, int blocks, Arena arena) {
    this.layers = layers;
    this.rowBytes = rowBytes;
    this.blocks = blocks;
    this.memory = arena.allocate(2L * layers * blocks * blockBytes(), ALIGNMENT);
  }

  /** The regions for the connector: of each layer K's first, then V's. */
  KvCacheLayout layout() {
    KvMemory all = KvMemory.host(memory);
    List<KvCacheRegion> regions = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      String name = "model.layers." + layer + ".self_attn.attn";
      for (int half = 0; half < 2; half++) {
        regions.add(
            KvCacheRegion.of(name, layer, all, offset(layer, half, 0, 0), blockBytes(), blocks));
      }
    }
    return new KvCacheLayout(regions);
  }

  /**
   * Where the row of a token lies; the rows of the block's next tokens follow it.
   *
   * @param half 0 for its key, 1 for its value
   * @param token its index in the block
   */
  long offset(int layer, int half, int block, int token) {
    return ((2L * layer + half) * blocks + block) * blockBytes() + (long) token * rowBytes;
  }

  MemorySegment memory() {
    return memory;
  }

  int rowBytes() {
    return rowBytes;
  }

  int blocks() {
    return blocks;
  }

  private long blockBytes() {
    return (long) BLOCK_TOKENS * rowBytes;
  }

  /** Blocks that hold so many tokens. */
  static int blocksFor(int tokens) {
    return Math.ceilDiv(tokens, BLOCK_TOKENS);
  }
}
