package dev.mooncake4j.examples.jlama.server;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Names for full blocks: the digest of a block's tokens and of all before it, so that two requests
 * share a name exactly where they begin alike. Grows with the request.
 */
final class BlockHashes {
  private final List<String> hashes = new ArrayList<>();
  private byte[] last;

  /**
   * No blocks yet.
   *
   * @param salt requests with another salt share nothing
   */
  BlockHashes(@Nullable String salt) {
    this.last = digest(salt == null ? new byte[0] : salt.getBytes(StandardCharsets.UTF_8));
  }

  /** Names all blocks that the first {@code count} tokens fill. */
  void extend(int[] tokens, int count) {
    for (int block = hashes.size(); block < count / KvPool.BLOCK_TOKENS; block++) {
      byte[] bytes = new byte[last.length + KvPool.BLOCK_TOKENS * Integer.BYTES];
      ByteBuffer buffer = ByteBuffer.wrap(bytes).put(last);
      buffer.asIntBuffer().put(tokens, block * KvPool.BLOCK_TOKENS, KvPool.BLOCK_TOKENS);
      last = digest(bytes);
      hashes.add(HexFormat.of().formatHex(last));
    }
  }

  String get(int block) {
    return hashes.get(block);
  }

  int size() {
    return hashes.size();
  }

  private static byte[] digest(byte[] bytes) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(bytes);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("this JDK has no SHA-256", e);
    }
  }
}
