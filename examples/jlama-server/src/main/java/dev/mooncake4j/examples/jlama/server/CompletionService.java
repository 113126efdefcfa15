package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvTransferParams;
import io.netty.channel.Channel;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * What the endpoint serves, once the model is there.
 *
 * @param metrics the scrape, in Prometheus' text format
 * @param unfetchedAllowed whether requests may ask for their blocks not to be fetched
 */
record CompletionService(
    String modelName,
    LanguageModel model,
    Engine engine,
    Supplier<String> metrics,
    boolean unfetchedAllowed) {

  private static final AtomicLong NUMBER = new AtomicLong();

  /**
   * Begins to answer a request; returns its id, by which it can be given up. May take some
   * milliseconds, for the tokens of the prompt.
   *
   * @param clientId the client's id for it, which stands in ours
   * @throws BadRequest if it is refused; a prefiller that it names is told to keep nothing for it,
   *     and a decoder that waits for its prefill that there will be none
   */
  String begin(Channel channel, byte[] body, @Nullable String clientId, Runnable onEnd)
      throws BadRequest {
    // The number keeps apart two requests under one id of the client's.
    String id = "cmpl-" + (clientId == null ? "" : clientId + "-") + NUMBER.incrementAndGet();
    CompletionRequest request;
    try {
      request = CompletionRequest.parse(body, model::encode);
      check(request);
    } catch (BadRequest refused) {
      KvTransferParams transfer = CompletionRequest.transferOf(body);
      if (transfer.doRemotePrefill() || transfer.doRemoteDecode()) {
        engine.refused(new KvRequest(id, 0, transfer));
      }
      throw refused;
    }
    engine.submit(
        new GenerationRequest(
            id,
            request.prompt(),
            request.maxTokens(),
            request.minTokens(),
            request.ignoreEnd(),
            request.cacheSalt(),
            request.transfer(),
            request.leaveUnfetched()),
        new CompletionAnswer(channel, request, id, modelName, model, onEnd));
    return id;
  }

  private void check(CompletionRequest request) throws BadRequest {
    if (request.model() != null && !request.model().equals(modelName)) {
      throw new BadRequest(
          404, "model=" + request.model() + " is not served here: " + modelName + " is");
    }
    if (!unfetchedAllowed && request.leaveUnfetched()) {
      throw new BadRequest("leave_kv_unfetched is not allowed by this server");
    }
    for (int token : request.prompt()) {
      if (token < 0 || token >= model.vocabularySize()) {
        throw new BadRequest(
            "prompt has token=" + token + ", which is not 0 to " + (model.vocabularySize() - 1));
      }
    }
    int length = request.prompt().length + request.maxTokens();
    if (length > engine.maxTokens() || length < 0) {
      throw new BadRequest(
          "prompt of tokens="
              + request.prompt().length
              + " and max_tokens="
              + request.maxTokens()
              + " are more than "
              + engine.maxTokens()
              + " together: give fewer, or start the server with more --blocks");
    }
  }
}
