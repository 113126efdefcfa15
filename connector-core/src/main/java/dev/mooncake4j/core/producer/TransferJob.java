package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What one engine thread is to plan and write: immutable but for its asker, so that it can cross
 * from the loop.
 *
 * @param session the decoder's engine, {@code host:port}
 * @param layoutId the name of its layout, 0 for none
 * @param plan how its layout pairs with ours
 * @param parts one for each request
 * @param digested the memory to take digests from, or {@code null} if none are asked for
 * @param asker whose connection the outcome is for
 */
record TransferJob(
    String session,
    long layoutId,
    PeerPlan plan,
    List<Part> parts,
    @Nullable HostMemory digested,
    Asker asker) {

  /** A job that takes no digests, for one who stays. */
  TransferJob(String session, long layoutId, PeerPlan plan, List<Part> parts) {
    this(session, layoutId, plan, parts, null, new Asker());
  }

  /**
   * One request's blocks here and there.
   *
   * @param local block ids here
   * @param remote block ids at the decoder
   * @param names of the request here
   */
  record Part(BlockIds local, BlockIds remote, RequestNames names) {

    /** Of a request without names. */
    Part(BlockIds local, BlockIds remote) {
      this(local, remote, RequestNames.NONE);
    }
  }

  /**
   * How it went.
   *
   * @param failures for each part why it failed, or {@code null} if its bytes lie at the decoder
   * @param engineFailed whether the engine failed, rather than a plan
   * @param durationNanos of the write alone
   * @param bytes written
   * @param descriptors written
   * @param digests for each part its digest, or {@code null} where none was asked for or had; or
   *     empty
   */
  record Outcome(
      List<@Nullable String> failures,
      boolean engineFailed,
      long durationNanos,
      long bytes,
      int descriptors,
      List<@Nullable TransferDigest> digests) {

    /** One without digests. */
    Outcome(
        List<@Nullable String> failures,
        boolean engineFailed,
        long durationNanos,
        long bytes,
        int descriptors) {
      this(failures, engineFailed, durationNanos, bytes, descriptors, List.of());
    }
  }
}
