package dev.mooncake4j.examples;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepResult;
import java.time.Duration;

/** The README's example: where the connector's calls go in a server that prefills or decodes. */
public final class EmbeddingExample {
  private EmbeddingExample() {}

  // @start region=embedding
  /** A prefiller: compute the KV, hand the blocks over, free them when they are fetched. */
  static void prefill(
      KvConnector connector, KvWorker worker, KvTransferParams params, BlockIds blocks)
      throws InterruptedException {
    var request = new KvRequest("p-1", 64, params); // the request's kv_transfer_params
    connector.scheduler().onRequestArrived(request);
    connector.scheduler().onBlocksAllocated(request, BlockIds.none(), 0);
    worker.startStep(connector.scheduler().buildStep()); // the transfer is announced
    // ... run the model: it writes the KV of 64 tokens into the blocks of the cache ...
    var decision = connector.scheduler().onRequestFinished(request, blocks, FinishReason.LENGTH);
    worker.startStep(connector.scheduler().buildStep()); // the blocks can be fetched
    for (boolean kept = decision.keepBlocks(); kept; ) { // until it is named as sent
      StepResult result = worker.await(Duration.ofSeconds(1)); // or poll() once a step
      connector.scheduler().onStepResult(result);
      kept = result.sent().isEmpty();
    }
  }

  /** A decoder: ask for the blocks, go on with other work, decode when they are in place. */
  static boolean decode(
      KvConnector connector, KvWorker worker, KvTransferParams params, BlockIds blocks)
      throws InterruptedException {
    var request = new KvRequest("d-1", 64, params);
    connector.scheduler().onRequestArrived(request);
    MatchedTokens remote = connector.scheduler().matchedTokens(request, 0); // 64 tokens, async
    if (remote.tokens() == 0) {
      return false; // nothing to fetch, or an id is in use: compute the prompt here
    }
    connector.scheduler().onBlocksAllocated(request, blocks, remote.tokens());
    worker.startStep(connector.scheduler().buildStep()); // returns at once
    while (true) { // until it is named the blocks are the transfer's
      StepResult result = worker.await(Duration.ofSeconds(1)); // or poll() once a step
      connector.scheduler().onStepResult(result);
      // A failure tells stage and reason, and by quiet() whether the blocks may be used again.
      if (!result.received().isEmpty() || !result.failed().isEmpty()) {
        return result.received().contains("d-1"); // decode; or else compute the prompt here
      }
    }
  }

  // @end

  // @start region=progress
  /** A prefiller that computes a prompt in chunks: finished blocks are sent meanwhile. */
  static FinishDecision prefillInChunks(
      KvConnector connector, KvWorker worker, KvRequest request, BlockIds blocks, int chunk) {
    for (int done = 0; done < request.promptTokens(); ) {
      done = Math.min(done + chunk, request.promptTokens());
      // ... run the model on the chunk: the KV of the first `done` tokens is in the blocks now ...
      connector.scheduler().onPrefillProgress(request, blocks, done);
      worker.startStep(connector.scheduler().buildStep()); // returns at once
    }
    var decision = connector.scheduler().onRequestFinished(request, blocks, FinishReason.LENGTH);
    worker.startStep(connector.scheduler().buildStep()); // what is left can be fetched
    return decision; // the blocks are kept until the request is named as sent
  }
  // @end
}
