package dev.mooncake4j.core.trace;

import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.TraceContext;
import org.jspecify.annotations.Nullable;

/**
 * By what a request is found again in events and log lines.
 *
 * @param requestId the id at the server that tells of it; empty where that is not known
 * @param transferId the transfer's id, the same on both sides
 * @param trace the trace that it is in, if any
 */
public record RequestNames(String requestId, String transferId, @Nullable TraceContext trace) {
  /** Of a request without names. */
  public static final RequestNames NONE = new RequestNames("", "", null);

  /** The names of a decoder's request. */
  public static RequestNames of(StepPlan.Pull pull) {
    return new RequestNames(pull.requestId(), pull.transferId(), pull.trace());
  }

  /** The trace's id, or {@code null}. */
  public @Nullable String traceId() {
    return trace == null ? null : trace.traceId();
  }
}
