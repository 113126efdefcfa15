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
 * @param integrityCheck whether decoders check what has arrived
 * @param identity what each side says of itself, and whom it deals with
 * @param spec the model's cache groups; where there are several, each has one of the two layers
 */
public record RigOptions(
    Duration abortTimeout,
    @Nullable Duration lease,
    int prefillerTp,
    int decoderTp,
    int blocks,
    boolean integrityCheck,
    Identity identity,
    KvCacheSpec spec) {
  /** KV heads of the model: as many ranks as this can share a block out. */
  static final int HEADS = 4;

  static final int HEAD_BYTES = 8;

  private static final KvCacheSpec SPEC =
      new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), HEADS, false, 1);

  /**
   * What each side says of itself, and whom it deals with.
   *
   * @param prefiller the prefiller's fingerprint, or {@code null}
   * @param decoder the decoder's, or {@code null}
   * @param allowedPeers of both sides; empty for all but special addresses
   */
  public record Identity(
      @Nullable String prefiller, @Nullable String decoder, List<String> allowedPeers) {
    static final Identity NONE = new Identity(null, null, List.of());
  }

  /** One rank each, 30 s, no leases, 64 blocks. */
  public static RigOptions defaults() {
    return new RigOptions(Duration.ofSeconds(30), null, 1, 1, 64, false, Identity.NONE, SPEC);
  }

  /** With this abort timeout. */
  public RigOptions withAbortTimeout(Duration timeout) {
    return new RigOptions(
        timeout, lease, prefillerTp, decoderTp, blocks, integrityCheck, identity, spec);
  }

  /** With a digest of everything that is sent. */
  public RigOptions withIntegrityCheck(boolean check) {
    return new RigOptions(
        abortTimeout, lease, prefillerTp, decoderTp, blocks, check, identity, spec);
  }

  /** With leases, or {@code null} for none. */
  public RigOptions withLease(@Nullable Duration duration) {
    return new RigOptions(
        abortTimeout, duration, prefillerTp, decoderTp, blocks, integrityCheck, identity, spec);
  }

  /** With so many ranks; 0 for a side that the test plays itself. */
  public RigOptions withRanks(int prefillers, int decoders) {
    return new RigOptions(
        abortTimeout, lease, prefillers, decoders, blocks, integrityCheck, identity, spec);
  }

  /** With so many blocks in each cache. */
  public RigOptions withBlocks(int count) {
    return new RigOptions(
        abortTimeout, lease, prefillerTp, decoderTp, count, integrityCheck, identity, spec);
  }

  /** With these identities. */
  public RigOptions withIdentity(Identity given) {
    return new RigOptions(
        abortTimeout, lease, prefillerTp, decoderTp, blocks, integrityCheck, given, spec);
  }

  /** With these cache groups, of which there are one or two. */
  public RigOptions withGroups(KvCacheGroup... groups) {
    return new RigOptions(
        abortTimeout,
        lease,
        prefillerTp,
        decoderTp,
        blocks,
        integrityCheck,
        identity,
        new KvCacheSpec(List.of(groups), HEADS, false, 1));
  }
}
