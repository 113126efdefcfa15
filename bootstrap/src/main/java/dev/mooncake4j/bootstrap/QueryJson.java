package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.QueryAnswer.EngineEntry;
import java.util.HashMap;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/**
 * {@link QueryAnswer} as JSON, both ways: {@code {dp: {engine_id, worker_addr: {tp: {pp: addr}}}}}.
 */
final class QueryJson {

  /** The braces around everything. */
  static final int EMPTY_COST = 2;

  /** A rank of seven digits, and what stands around it and around what it leads to. */
  private static final int RANK_COST = 14;

  /** A rank of seven digits, two field names, and what stands around them. */
  private static final int ENGINE_COST = 48;

  private QueryJson() {}

  static byte[] write(QueryAnswer answer) {
    ObjectNode root = JsonNodeFactory.instance.objectNode();
    answer
        .engines()
        .forEach(
            (dp, entry) -> {
              ObjectNode engine = root.putObject(dp.toString()).put("engine_id", entry.engineId());
              ObjectNode byTp = engine.putObject("worker_addr");
              entry
                  .workers()
                  .forEach(
                      (tp, stages) -> {
                        ObjectNode byPp = byTp.putObject(tp.toString());
                        stages.forEach((pp, addr) -> byPp.put(pp.toString(), addr));
                      });
            });
    return Json.bytes(root);
  }

  /** At least the bytes that an entry takes in the answer. */
  static int costOf(EngineEntry entry) {
    int cost = ENGINE_COST + length(entry.engineId());
    for (Map<Integer, String> stages : entry.workers().values()) {
      cost += RANK_COST;
      for (String addr : stages.values()) {
        cost += RANK_COST + length(addr);
      }
    }
    return cost;
  }

  /** The bytes of a text within quotes, at most. */
  private static int length(String text) {
    int bytes = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      bytes += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : c < 0x80 ? 1 : 3;
    }
    return bytes;
  }

  /**
   * Reads an answer, strictly: ranks are plain decimal numbers, texts are strings, and no name
   * comes twice. Fields beside {@code engine_id} and {@code worker_addr} are a later release's, and
   * skipped.
   *
   * @throws MalformedAnswerException if it is anything else
   */
  static QueryAnswer read(byte[] body) throws MalformedAnswerException {
    JsonNode root;
    try {
      root = Json.STRICT_MAPPER.readTree(body);
    } catch (JacksonException e) {
      throw new MalformedAnswerException(
          "not JSON: " + ErrorText.printable(e.getOriginalMessage(), 200));
    }
    Map<Integer, EngineEntry> engines = new HashMap<>();
    for (Map.Entry<String, JsonNode> dp : object(root, "answer").properties()) {
      JsonNode entry = object(dp.getValue(), "dp_rank=" + shown(dp.getKey()));
      JsonNode byTp = object(entry.path("worker_addr"), "worker_addr");
      Map<Integer, Map<Integer, String>> workers = new HashMap<>();
      for (Map.Entry<String, JsonNode> tp : byTp.properties()) {
        Map<Integer, String> stages = new HashMap<>();
        for (Map.Entry<String, JsonNode> pp : object(tp.getValue(), "tp_rank").properties()) {
          stages.put(rank("pp_rank", pp.getKey()), text("addr", pp.getValue()));
        }
        workers.put(rank("tp_rank", tp.getKey()), stages);
      }
      engines.put(
          rank("dp_rank", dp.getKey()),
          new EngineEntry(text("engine_id", entry.path("engine_id")), workers));
    }
    return new QueryAnswer(engines);
  }

  private static JsonNode object(JsonNode node, String name) throws MalformedAnswerException {
    if (!node.isObject()) {
      throw new MalformedAnswerException(name + " is not an object");
    }
    return node;
  }

  private static String text(String name, JsonNode node) throws MalformedAnswerException {
    if (!node.isString()) {
      throw new MalformedAnswerException(name + " is not a string");
    }
    String text = node.stringValue();
    if (text.isEmpty() || text.length() > RegisterRequest.MAX_TEXT) {
      throw new MalformedAnswerException(name + " has length=" + text.length());
    }
    if (!RegisterRequest.isWellFormed(text)) {
      throw new MalformedAnswerException(name + " has half a surrogate pair");
    }
    return text;
  }

  private static int rank(String name, String key) throws MalformedAnswerException {
    // Without leading zeros and signs, two keys cannot be the same rank.
    boolean plain =
        !key.isEmpty() && key.length() <= 7 && (key.length() == 1 || key.charAt(0) != '0');
    int rank = 0;
    for (int i = 0; plain && i < key.length(); i++) {
      int digit = key.charAt(i) - '0';
      plain = digit >= 0 && digit <= 9;
      rank = rank * 10 + digit;
    }
    if (!plain || rank > RegisterRequest.MAX_RANK) {
      throw new MalformedAnswerException(name + "=" + shown(key) + " is not a rank");
    }
    return rank;
  }

  private static String shown(String key) {
    return ErrorText.printable(key, 32);
  }

  /** An answer that is not what {@code /query} answers; says where. */
  static final class MalformedAnswerException extends Exception {
    private static final long serialVersionUID = 1L;

    MalformedAnswerException(String message) {
      super(message);
    }
  }
}
