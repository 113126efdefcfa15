package dev.mooncake4j.it.stress;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * What the KV of a request is, by a formula over its transfer id: whoever receives it knows what
 * must arrive, and blocks of another request, of another place in the prompt or of another layer
 * never pass for it.
 */
record KvPattern(long seed) {
  private static final long PER_BLOCK = 0x9E3779B97F4A7C15L;
  private static final long PER_WORD = 0xBF58476D1CE4E5B9L;
  private static final long PER_LAYER = 1_000_003;
  private static final ValueLayout.OfLong WORD =
      ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

  static KvPattern of(String transferId) {
    long hash = 0xCBF29CE484222325L;
    for (byte b : transferId.getBytes(StandardCharsets.UTF_8)) {
      hash = (hash ^ b) * 0x100000001B3L;
    }
    hash ^= hash >>> 29;
    return new KvPattern(hash * PER_BLOCK);
  }

  private long first(int layer, int position) {
    return (layer * PER_LAYER + position) * PER_BLOCK + seed;
  }

  /** Fills one layer's block at a position of the prompt. */
  void fill(MemorySegment block, int layer, int position) {
    long value = first(layer, position);
    for (long at = 0; at < block.byteSize(); at += Long.BYTES) {
      block.set(WORD, at, value);
      value += PER_WORD;
    }
  }

  /** How many bytes of it are not as {@link #fill} has left them. */
  long wrongBytes(MemorySegment block, int layer, int position) {
    long value = first(layer, position);
    long wrong = 0;
    for (long at = 0; at < block.byteSize(); at += Long.BYTES) {
      long differs = block.get(WORD, at) ^ value;
      for (; differs != 0; differs >>>= Byte.SIZE) {
        if ((differs & 0xFF) != 0) {
          wrong++;
        }
      }
      value += PER_WORD;
    }
    return wrong;
  }
}
