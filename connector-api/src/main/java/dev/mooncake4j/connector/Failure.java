package dev.mooncake4j.connector;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * How one request failed: the one path by which any fault reaches the caller.
 *
 * <p>Mostly nobody writes into {@code blocks} any more when a failure is reported: they may be
 * freed, or computed again in place. Where that is not known yet, {@code quiet} is false: the
 * request can be given up or computed in other blocks at once, but these are kept until {@link
 * StepResult#quieted()} names the request. A prefiller that is stopped or cut off may go on writing
 * when it comes back.
 *
 * @param requestId the server's request id
 * @param transferId the transfer's id, the same on both sides
 * @param stage where it failed
 * @param reason what happened, lower case, with {@code name=value} pairs
 * @param peer the other side's address, where one was known
 * @param blocks every block of the request that does not hold valid KV
 * @param quiet whether nobody writes into these blocks any more
 */
public record Failure(
    String requestId,
    String transferId,
    FailureStage stage,
    String reason,
    @Nullable String peer,
    BlockIds blocks,
    boolean quiet)
    implements Serializable {

  /** The same failure, when nobody writes into its blocks any more. */
  public Failure quieted() {
    return quiet ? this : new Failure(requestId, transferId, stage, reason, peer, blocks, true);
  }
}
