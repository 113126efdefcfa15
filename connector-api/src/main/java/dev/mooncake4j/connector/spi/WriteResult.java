package dev.mooncake4j.connector.spi;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * How a write ended.
 *
 * @param status the outcome
 * @param message what happened, with values; empty when completed
 * @param quiet completes when no byte of this write can be written any more: already complete
 *     unless {@link Status#TIMED_OUT}, and then perhaps never
 */
public record WriteResult(Status status, String message, CompletionStage<Void> quiet) {

  private static final CompletionStage<Void> QUIET = CompletableFuture.completedStage(null);
  private static final WriteResult COMPLETED = new WriteResult(Status.COMPLETED, "", QUIET);

  /** The outcome of a write. */
  public enum Status {
    /** Every descriptor was written. */
    COMPLETED,
    /** Some descriptor failed; others may have been written; nothing is under way any more. */
    FAILED,
    /** The time has passed and parts may still be under way: see {@link WriteResult#quiet()}. */
    TIMED_OUT
  }

  /** All written. */
  public static WriteResult completed() {
    return COMPLETED;
  }

  /** Failed and quiet. */
  public static WriteResult failed(String message) {
    return new WriteResult(Status.FAILED, message, QUIET);
  }

  /** Out of time; {@code quiet} tells when the rest has ended. */
  public static WriteResult timedOut(String message, CompletionStage<Void> quiet) {
    return new WriteResult(Status.TIMED_OUT, message, quiet);
  }

  /** Whether every descriptor was written. */
  public boolean isCompleted() {
    return status == Status.COMPLETED;
  }
}
