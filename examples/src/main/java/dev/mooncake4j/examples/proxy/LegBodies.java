package dev.mooncake4j.examples.proxy;

import dev.mooncake4j.connector.KvTransferParams;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Makes the two requests out of the client's one.
 *
 * <p>The prefiller runs the prompt alone, so it is asked for one token and no stream; the decoder
 * gets the request as it came. Both get the {@code kv_transfer_params} that bring them together.
 */
final class LegBodies {
  /** Deep enough for tool schemas; a bound on the stack that a client can make us use. */
  private static final int MAX_DEPTH = 200;

  private static final JsonMapper MAPPER =
      JsonMapper.builder(
              JsonFactory.builder()
                  .streamReadConstraints(
                      StreamReadConstraints.builder().maxNestingDepth(MAX_DEPTH).build())
                  .build())
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          // Numbers go through as they came.
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .build();

  private LegBodies() {}

  /** Reads a client's request. */
  static ObjectNode parse(byte[] body) throws ProxyFailure {
    JsonNode json;
    try {
      json = MAPPER.readTree(body);
    } catch (JacksonException e) {
      throw new ProxyFailure(400, "the body is not JSON: " + e.getOriginalMessage());
    }
    if (!(json instanceof ObjectNode request)) {
      throw new ProxyFailure(400, "the body is not a JSON object");
    }
    refuseSeveral(request);
    return request;
  }

  /**
   * One request, one transfer: a server makes a request of each prompt and each choice, and all of
   * them would fetch, and release, the same blocks.
   */
  private static void refuseSeveral(ObjectNode request) throws ProxyFailure {
    for (String choices : new String[] {"n", "best_of"}) {
      JsonNode n = request.get(choices);
      if (n != null && n.isNumber() && n.doubleValue() > 1) {
        throw new ProxyFailure(
            400, choices + "=" + n + " is not served here: ask for one choice at a time");
      }
    }
    JsonNode prompt = request.get("prompt");
    if (prompt != null && prompt.isArray() && prompt.size() > 1 && !prompt.get(0).isNumber()) {
      throw new ProxyFailure(
          400, "prompts=" + prompt.size() + " are not served here: send one prompt at a time");
    }
  }

  /** What the prefiller is asked. */
  static byte[] forPrefiller(ObjectNode request, String transferId, @Nullable String traceparent) {
    ObjectNode body =
        withParams(request, KvTransferParams.forPrefiller(transferId).withTraceparent(traceparent));
    body.put("stream", false);
    body.remove("stream_options");
    body.put("max_tokens", 1);
    for (String limit : new String[] {"max_completion_tokens", "min_tokens"}) {
      JsonNode value = body.get(limit);
      // Servers refuse a request for fewer tokens at most than at least.
      if (value != null && !value.isNull() && !(value.isInt() && value.intValue() == 0)) {
        body.put(limit, 1);
      }
    }
    return bytes(body);
  }

  /** What the decoder is asked. */
  static byte[] forDecoder(
      ObjectNode request, String transferId, PrefillTarget target, @Nullable String traceparent) {
    return bytes(
        withParams(
            request,
            KvTransferParams.forDecoder(
                    transferId, target.engineId(), target.prefiller().bootstrap().toString())
                .withTraceparent(traceparent)));
  }

  private static ObjectNode withParams(ObjectNode request, KvTransferParams params) {
    ObjectNode copy = request.deepCopy();
    copy.set("kv_transfer_params", MAPPER.valueToTree(params.toMap()));
    return copy;
  }

  private static byte[] bytes(ObjectNode body) {
    return body.toString().getBytes(StandardCharsets.UTF_8);
  }
}
