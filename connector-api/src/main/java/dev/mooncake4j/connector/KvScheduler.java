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

  /**
   * Prefiller: a part of a prompt is computed and the prefill goes on. With {@code
   * send_while_prefill} ({@link ConnectorConfig#sendWhilePrefill()}) the finished blocks may be
   * written to a decoder that waits; without it, and for a request without a transfer, this does
   * nothing.
   *
   * <p>To be called after each chunk, from the first, before the step that follows is built; a
   * chunk that is not told is made up for by the next call or by {@link #onRequestFinished}. Each
   * call tells all that is finished, not what has come since the last; nothing is written before
   * {@link KvWorker#startStep} has the step. How many blocks the prompt will have follows from
   * {@link KvRequest#promptTokens()} and {@link KvCacheGroup#blockTokens()}, or is the number of
   * {@code blocks} where these are more. A block is finished when all its tokens are: the last one,
   * where the prompt fills it in part, goes with the end. So do groups whose blocks change until
   * then, sliding windows and states, and all blocks of a request whose decoder has {@code
   * integrity_check}.
   *
   * <p>From the call on until {@link #onRequestFinished} the finished blocks stay as they are: one
   * that is written to all the same arrives as it was when it was sent, and no check sees it. A
   * prefill that loses them and begins anew (preempted, computed again) is told at once with {@code
   * finishedTokens} 0: what was written before is written again. A write that is under way may
   * still read the old blocks then; what it reads is overwritten, or discarded with the request. A
   * server that must not have even that gives the request up instead ({@link FinishReason#ABORTED})
   * and keeps the blocks until it is told.
   *
   * <p>Like every call here it is for one thread at a time, returns at once and does no I/O.
   *
   * @param request the request, as it was given to the other calls
   * @param blocks its blocks so far, of all groups, each from the prompt's first on; those behind
   *     the finished ones need not be there, and {@link BlockIds#none()} will do where none is
   *     finished
   * @param finishedTokens how many tokens from the prompt's first on are in the blocks, those found
   *     in the prefix cache included; 0 to {@link KvRequest#promptTokens()}
   * @throws IllegalArgumentException if {@code finishedTokens} is negative or more than the prompt
   *     has, if a group has fewer blocks than are finished, or if {@code blocks} has another number
   *     of groups than the configured {@link KvCacheSpec}; nothing has changed then
   */
  default void onPrefillProgress(KvRequest request, BlockIds blocks, int finishedTokens) {}

  /** All that has come up since the last call, for every worker; forgotten here afterwards. */
  StepPlan buildStep();

  /**
   * The server is done with a request.
   *
   * <p>Prefiller: with KV ({@link FinishReason#hasKv()}) and blocks, they are kept and marked
   * ready; otherwise the transfer is cancelled and a waiting decoder is told. Blocks that were told
   * as finished by {@link #onPrefillProgress} may be being written: then they are kept also where
   * the transfer is cancelled, and named as sent when no write reads them. Decoder: a request that
   * is given up before its blocks are allocated releases the prefiller's; one whose pull is under
   * way keeps its blocks until the worker reports it.
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
