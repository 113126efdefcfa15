package dev.mooncake4j.connector;

/**
 * What the server does with a finished request's blocks.
 *
 * @param keepBlocks {@code true}: the blocks belong to the connector until {@link
 *     StepResult#sent()}, {@link StepResult#received()} or {@link StepResult#failed()} names the
 *     request; {@code false}: free them now
 */
public record FinishDecision(boolean keepBlocks) {
  /** Free the blocks now. */
  public static final FinishDecision FREE_NOW = new FinishDecision(false);

  /** Keep the blocks until the worker reports the request. */
  public static final FinishDecision KEEP = new FinishDecision(true);
}
