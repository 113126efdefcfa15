package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.core.plan.PeerPlan;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What one engine thread is to plan and write: immutable, so that it can cross from the loop.
 *
 * @param session the decoder's engine, {@code host:port}
 * @param layoutId the name of its layout, 0 for none
 * @param plan how its layout pairs with ours
 * @param parts one for each request
 */
record TransferJob(String session, long layoutId, PeerPlan plan, List<Part> parts) {

  /**
   * One request's blocks here and there.
   *
   * @param local block ids here
   * @param remote block ids at the decoder
   */
  record Part(BlockIds local, BlockIds remote) {}

  /**
   * How it went.
   *
   * @param failures for each part why it failed, or {@code null} if its bytes lie at the decoder
   * @param engineFailed whether the engine failed, rather than a plan
   * @param durationNanos of the write alone
   * @param bytes written
   * @param descriptors written
   */
  record Outcome(
      List<@Nullable String> failures,
      boolean engineFailed,
      long durationNanos,
      long bytes,
      int descriptors) {}
}
