package dev.mooncake4j.connector;

/**
 * The scheduler side: once per engine, called by the inference server's scheduler.
 *
 * <p>Pure bookkeeping: no call blocks, does I/O, or throws for a request's bad parameters (those
 * are logged and the request is treated as one without a transfer). One thread at a time; not
 * synchronized.
 *
 * <p>Source of the contract: the scheduler half of vLLM's MooncakeConnector.
 */
public interface KvScheduler {

  /**
   * A request has arrived and is queued. On a decoder with {@code kv_lease_duration} the renewals
   * begin. On a prefiller of a model with a state ({@link KvCacheSpec#hasMamba()}) the returned
   * length is one less than the prompt: the server drops the last prompt token and generates one.
   *
   * @return how many prompt tokens the server runs
   */
  int onRequestArrived(KvRequest request);

  /**
   * How many prompt tokens can be loaded beyond those computed locally.
   *
   * @param request the request
   * @param computedTokens tokens found in the local prefix cache, 0 to the prompt's length
   */
  MatchedTokens matchedTokens(KvRequest request, int computedTokens);

  /**
   * Blocks are allocated for a request.
   *
   * <p>Decoder: {@code blocks} are those to fill, without those already cached locally; {@link
   * BlockIds#none()} or empty groups when all were, which only releases the prefiller's blocks.
   * Prefiller: the transfer is announced, {@code blocks} is not looked at. Once per request.
   *
   * @param request the request
   * @param blocks the blocks to fill
   * @param externalTokens the tokens of {@link #matchedTokens}, or 0
   */
  void onBlocksAllocated(KvRequest request, BlockIds blocks, int externalTokens);

  /** All that has come up since the last call, for every worker; forgotten here afterwards. */
  StepPlan buildStep();

  /**
   * The server is done with a request.
   *
   * <p>Prefiller: with KV ({@link FinishReason#hasKv()}) and blocks, they are kept and marked
   * ready; otherwise the transfer is cancelled and a waiting decoder is told. Decoder: a request
   * that is given up before its blocks are allocated releases the prefiller's; one whose pull is
   * under way keeps its blocks until the worker reports it.
   *
   * @param request the request
   * @param blocks all its blocks
   * @param reason why it ended
   * @return whether the server keeps the blocks for now
   */
  FinishDecision onRequestFinished(KvRequest request, BlockIds blocks, FinishReason reason);

  /**
   * The workers have reported a request: it is forgotten here as soon as the server is done with it
   * too. To be called with each result that all ranks have reported, before the next step is built.
   */
  void onStepResult(StepResult result);
}
