package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.KvTransferParams;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * The body of a {@code POST /v1/completions}, checked: OpenAI's, with vLLM's {@code
 * kv_transfer_params}, {@code cache_salt}, {@code ignore_eos}, {@code min_tokens} and {@code
 * return_token_ids}.
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record CompletionRequest(
    @Nullable String model,
    int[] prompt,
    int maxTokens,
    int minTokens,
    boolean ignoreEnd,
    boolean stream,
    boolean includeUsage,
    boolean returnTokenIds,
    @Nullable String cacheSalt,
    KvTransferParams transfer,
    boolean leaveUnfetched) {

  private static final int DEFAULT_MAX_TOKENS = 16;

  /**
   * What would change the answer, and is not done here; null, false, 0 and empty do not ask for it.
   */
  private static final List<String> NOT_SERVED =
      List.of(
          "temperature",
          "suffix",
          "echo",
          "logprobs",
          "prompt_logprobs",
          "stop",
          "stop_token_ids",
          "frequency_penalty",
          "presence_penalty",
          "logit_bias",
          "use_beam_search");

  /**
   * Reads a body.
   *
   * @throws BadRequest with the field and its value, if it is not served
   */
  static CompletionRequest parse(byte[] body, Function<String, int[]> encode) throws BadRequest {
    JsonNode json;
    try {
      json = JsonMapper.shared().readTree(body);
    } catch (JacksonException e) {
      throw new BadRequest("the body is not JSON: " + e.getOriginalMessage());
    }
    if (!(json instanceof ObjectNode object)) {
      throw new BadRequest("the body is not a JSON object");
    }
    refuse(object);
    JsonNode options = object.path("stream_options");
    return new CompletionRequest(
        text(object, "model"),
        prompt(object, encode),
        integer(object, "max_tokens", DEFAULT_MAX_TOKENS, 1),
        integer(object, "min_tokens", 0, 0),
        flag(object, "ignore_eos"),
        flag(object, "stream"),
        options instanceof ObjectNode o && flag(o, "include_usage"),
        flag(object, "return_token_ids"),
        text(object, "cache_salt"),
        transfer(object),
        flag(object, "leave_kv_unfetched"));
  }

  private static void refuse(ObjectNode body) throws BadRequest {
    for (String name : NOT_SERVED) {
      JsonNode value = body.get(name);
      if (value != null && !asksForNothing(value)) {
        throw new BadRequest(
            name + "=" + value + " is not served here: this server decodes greedily, leave it out");
      }
    }
    for (String name : List.of("n", "best_of")) {
      JsonNode value = body.get(name);
      if (value != null && !value.isNull() && value.asInt(0) != 1) {
        throw new BadRequest(name + "=" + value + " is not served here: ask for one choice");
      }
    }
  }

  private static boolean asksForNothing(JsonNode value) {
    return value.isNull()
        || (value.isBoolean() && !value.booleanValue())
        || (value.isNumber() && value.doubleValue() == 0)
        || (value.isContainer() && value.isEmpty());
  }

  private static int[] prompt(ObjectNode body, Function<String, int[]> encode) throws BadRequest {
    JsonNode prompt = body.get("prompt");
    if (prompt != null && prompt.isArray() && prompt.size() == 1 && !prompt.get(0).isNumber()) {
      prompt = prompt.get(0);
    }
    int[] tokens;
    if (prompt != null && prompt.isString()) {
      tokens = encode.apply(ascii(prompt.stringValue()));
    } else if (prompt != null
        && prompt.isArray()
        && prompt.valueStream().allMatch(JsonNode::isInt)) {
      tokens = prompt.valueStream().mapToInt(JsonNode::intValue).toArray();
    } else {
      throw new BadRequest("prompt is not a text or a list of token ids, or is several: give one");
    }
    if (tokens.length == 0) {
      throw new BadRequest("prompt is empty: give a token at least");
    }
    return tokens;
  }

  /** Jlama splits a text by its characters where this tokenizer goes by bytes. */
  private static String ascii(String prompt) throws BadRequest {
    int at = 0;
    while (at < prompt.length() && prompt.charAt(at) < 128) {
      at++;
    }
    if (at < prompt.length()) {
      throw new BadRequest(
          "prompt has code_point="
              + prompt.codePointAt(at)
              + " at index="
              + at
              + ", which Jlama's tokenizer takes apart wrongly: keep to ASCII, or give token ids");
    }
    return prompt;
  }

  private static KvTransferParams transfer(ObjectNode body) throws BadRequest {
    JsonNode params = body.get("kv_transfer_params");
    if (params == null || params.isNull()) {
      return GenerationRequest.NO_TRANSFER;
    }
    if (!params.isObject()) {
      throw new BadRequest("kv_transfer_params=" + params + " is not a JSON object");
    }
    Map<String, Object> map = new HashMap<>();
    for (Map.Entry<String, JsonNode> entry : params.properties()) {
      JsonNode value = entry.getValue();
      if (!value.isNull()) {
        map.put(
            entry.getKey(),
            value.isBoolean()
                ? value.booleanValue()
                : value.isString() ? value.stringValue() : value);
      }
    }
    try {
      return KvTransferParams.fromMap(map);
    } catch (IllegalArgumentException e) {
      throw new BadRequest(String.valueOf(e.getMessage()));
    }
  }

  /**
   * The transfer that a body asks for which may be wrong in everything else; none where that cannot
   * be read.
   */
  static KvTransferParams transferOf(byte[] body) {
    try {
      return JsonMapper.shared().readTree(body) instanceof ObjectNode object
          ? transfer(object)
          : GenerationRequest.NO_TRANSFER;
    } catch (JacksonException | BadRequest e) {
      return GenerationRequest.NO_TRANSFER;
    }
  }

  private static @Nullable String text(ObjectNode body, String name) throws BadRequest {
    JsonNode value = body.get(name);
    if (value == null || value.isNull()) {
      return null;
    }
    if (!value.isString()) {
      throw new BadRequest(name + "=" + value + " is not a text");
    }
    return value.stringValue();
  }

  private static boolean flag(ObjectNode body, String name) throws BadRequest {
    JsonNode value = body.get(name);
    if (value == null || value.isNull()) {
      return false;
    }
    if (!value.isBoolean()) {
      throw new BadRequest(name + "=" + value + " is not true or false");
    }
    return value.booleanValue();
  }

  private static int integer(ObjectNode body, String name, int otherwise, int least)
      throws BadRequest {
    JsonNode value = body.get(name);
    if (value == null || value.isNull()) {
      return otherwise;
    }
    if (!value.isInt() || value.intValue() < least) {
      throw new BadRequest(name + "=" + value + " is not a number of at least " + least);
    }
    return value.intValue();
  }
}
