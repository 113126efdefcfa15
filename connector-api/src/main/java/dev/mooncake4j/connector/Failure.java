package dev.mooncake4j.connector;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * How one request failed: the one path by which any fault reaches the caller.
 *
 * <p>When a failure is reported nobody writes into {@code blocks} any more: they may be freed, or
 * computed again in place.
 *
 * @param requestId the server's request id
 * @param transferId the transfer's id, the same on both sides
 * @param stage where it failed
 * @param reason what happened, lower case, with {@code name=value} pairs
 * @param peer the other side's address, where one was known
 * @param blocks every block of the request that does not hold valid KV
 */
public record Failure(
    String requestId,
    String transferId,
    FailureStage stage,
    String reason,
    @Nullable String peer,
    BlockIds blocks)
    implements Serializable {}
