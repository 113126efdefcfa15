package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The shape of a {@link CoreRig}.
 *
 * @param abortTimeout of both sides
 * @param lease of the prefillers, or {@code null} for none
 * @param prefillerTp tensor-parallel size of the prefiller's engine; 0 for no prefiller
 * @param decoderTp tensor-parallel size of the decoder's engine; 0 for no decoder
 * @param blocks of every cache
 */
public record RigOptions(
    Duration abortTimeout, @Nullable Duration lease, int prefillerTp, int decoderTp, int blocks) {
  /** KV heads of the model: as many ranks as this can share a block out. */
  static final int HEADS = 4;

  static final int HEAD_BYTES = 8;

  static final KvCacheSpec SPEC =
      new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), HEADS, false, 1);

  /** One rank each, 30 s, no leases, 64 blocks. */
  public static RigOptions defaults() {
    return new RigOptions(Duration.ofSeconds(30), null, 1, 1, 64);
  }

  /** With this abort timeout. */
  public RigOptions withAbortTimeout(Duration timeout) {
    return new RigOptions(timeout, lease, prefillerTp, decoderTp, blocks);
  }

  /** With leases. */
  public RigOptions withLease(Duration duration) {
    return new RigOptions(abortTimeout, duration, prefillerTp, decoderTp, blocks);
  }

  /** With so many ranks; 0 for a side that the test plays itself. */
  public RigOptions withRanks(int prefillers, int decoders) {
    return new RigOptions(abortTimeout, lease, prefillers, decoders, blocks);
  }
}
