package dev.mooncake4j.connector;

import java.io.Serializable;

/**
 * One KV cache group of a model: layers that share block ids.
 *
 * @param kind what its layers keep
 * @param blockTokens tokens per block, at least 1
 * @param slidingWindow window in tokens for {@link Kind#SLIDING_WINDOW}, else 0
 */
public record KvCacheGroup(Kind kind, int blockTokens, int slidingWindow) implements Serializable {

  /** What the layers of a group keep. */
  public enum Kind {
    /** KV of every token. */
    FULL_ATTENTION,
    /** KV of the last tokens only. */
    SLIDING_WINDOW,
    /** A state instead of KV per token. */
    MAMBA
  }

  /** Checks the ranges. */
  public KvCacheGroup {
    if (blockTokens < 1) {
      throw new IllegalArgumentException("block_tokens=" + blockTokens + " is less than 1");
    }
    if ((kind == Kind.SLIDING_WINDOW) != (slidingWindow > 0)) {
      throw new IllegalArgumentException(
          "sliding_window=" + slidingWindow + " does not fit kind=" + kind);
    }
  }

  /** A group that keeps the KV of every token. */
  public static KvCacheGroup fullAttention(int blockTokens) {
    return new KvCacheGroup(Kind.FULL_ATTENTION, blockTokens, 0);
  }

  /** A group that keeps the KV of the last {@code window} tokens. */
  public static KvCacheGroup slidingWindow(int blockTokens, int window) {
    return new KvCacheGroup(Kind.SLIDING_WINDOW, blockTokens, window);
  }

  /** A group that keeps a state. */
  public static KvCacheGroup mamba(int blockTokens) {
    return new KvCacheGroup(Kind.MAMBA, blockTokens, 0);
  }

  /**
   * How many blocks at the end of a request this group sends: {@code ceil(window / block) + 1} for
   * a sliding window, all for the others.
   */
  public int sendableBlocks(int blocks) {
    if (kind != Kind.SLIDING_WINDOW) {
      return blocks;
    }
    return (int) Math.min(blocks, Math.ceilDiv(slidingWindow, blockTokens) + 1L);
  }
}
