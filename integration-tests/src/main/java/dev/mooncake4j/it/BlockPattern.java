package dev.mooncake4j.it;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;

/**
 * What a filled block holds, by a formula, so that whoever receives it knows what must arrive.
 *
 * <p>The 64-bit little-endian word {@code i} of block {@code b} of layer {@code l} is {@code (l *
 * 1000003 + b) * 0x9E3779B97F4A7C15 + i * 0xBF58476D1CE4E5B9 + seed} modulo 2^64, where {@code l}
 * is the layer's index in the whole model and {@code i} counts over the block with all KV heads,
 * heads first: a tensor-parallel rank's part starts at its first head.
 *
 * @param seed the sender's seed
 * @param firstWord index of the first word that this rank holds
 * @param words number of words of a block on this rank
 */
public record BlockPattern(long seed, int firstWord, int words) {
  private static final long PER_BLOCK = 0x9E3779B97F4A7C15L;
  private static final long PER_WORD = 0xBF58476D1CE4E5B9L;
  private static final long PER_LAYER = 1000003;
  private static final ValueLayout.OfLong WORD =
      ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

  /** What the rank with these options holds when it is filled with a seed. */
  public static BlockPattern of(PeerOptions options, long seed) {
    int words = options.blockBytes() / Long.BYTES;
    return new BlockPattern(seed, options.firstHead() * (words / options.localHeads()), words);
  }

  /** One word. */
  public long word(int layer, int block, int index) {
    return (layer * PER_LAYER + block) * PER_BLOCK + (firstWord + index) * PER_WORD + seed;
  }

  /** Fills the memory of one layer, block after block. */
  public void fill(MemorySegment layerMemory, int layer, int blocks) {
    for (int block = 0; block < blocks; block++) {
      fillBlock(layerMemory, layer, block);
    }
  }

  /** Fills one block of the memory of one layer. */
  public void fillBlock(MemorySegment layerMemory, int layer, int block) {
    long at = (long) block * words * Long.BYTES;
    long value = word(layer, block, 0);
    for (int i = 0; i < words; i++) {
      layerMemory.set(WORD, at, value);
      at += Long.BYTES;
      value += PER_WORD;
    }
  }

  /** SHA-256 over the given blocks of all given layers in order, as hexadecimal digits. */
  public String sha256(int[] layers, int[] blocks) {
    MessageDigest digest = newSha256();
    ByteBuffer block = ByteBuffer.allocate(words * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (int layer : layers) {
      for (int id : blocks) {
        block.clear();
        for (int i = 0; i < words; i++) {
          block.putLong(word(layer, id, i));
        }
        digest.update(block.array());
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /**
   * The same of what blocks in memory really hold.
   *
   * @param layers the memory of each layer, block after block
   * @param blockBytes bytes of a block of one layer
   */
  public static String sha256(List<MemorySegment> layers, long blockBytes, int[] blocks) {
    MessageDigest digest = newSha256();
    for (MemorySegment layer : layers) {
      for (int block : blocks) {
        digest.update(layer.asSlice(block * blockBytes, blockBytes).asByteBuffer());
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  private static MessageDigest newSha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
