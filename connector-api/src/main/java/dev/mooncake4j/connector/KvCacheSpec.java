package dev.mooncake4j.connector;

import java.io.Serializable;
import java.util.List;

/**
 * The shape of a model's KV cache, the same for every rank.
 *
 * @param groups the KV cache groups, at least one, in the order of {@link BlockIds}
 * @param totalKvHeads KV heads of the whole model, or 0 where it is not known; needed when
 *     tensor-parallel sizes differ
 * @param mla whether the model keeps one latent per token instead of heads (MLA)
 * @param physicalBlocksPerLogical blocks of memory behind one block id, at least 1
 */
public record KvCacheSpec(
    List<KvCacheGroup> groups, int totalKvHeads, boolean mla, int physicalBlocksPerLogical)
    implements Serializable {

  /** Checks the ranges and copies the list. */
  public KvCacheSpec {
    groups = List.copyOf(groups);
    if (groups.isEmpty()) {
      throw new IllegalArgumentException("kv cache spec has no groups: give at least one");
    }
    if (totalKvHeads < 0) {
      throw new IllegalArgumentException("total_kv_heads=" + totalKvHeads + " is negative");
    }
    if (physicalBlocksPerLogical < 1) {
      throw new IllegalArgumentException(
          "physical_blocks_per_logical=" + physicalBlocksPerLogical + " is less than 1");
    }
  }

  /** One full-attention group: most models. */
  public static KvCacheSpec fullAttention(int blockTokens) {
    return new KvCacheSpec(List.of(KvCacheGroup.fullAttention(blockTokens)), 0, false, 1);
  }

  /** Whether a group keeps a state, so that the last prompt token is computed again. */
  public boolean hasMamba() {
    return groups.stream().anyMatch(g -> g.kind() == KvCacheGroup.Kind.MAMBA);
  }
}
