package dev.mooncake4j.bootstrap;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/**
 * Reads a worker out of a request's body as vLLM's server does, which uses FastAPI and pydantic:
 * the same values are taken for ranks, and what is wrong is told in the same words.
 *
 * <p>Other than there, ranks and texts have limits ({@link RegisterRequest}), told in pydantic's
 * words for limits. One reader reads one body.
 */
final class PayloadReader {

  /** Of what pydantic takes for an integer in a string: sign, digit groups, a zero fraction. */
  private static final Pattern INTEGER = Pattern.compile("[+-]?[0-9]+(?:_[0-9]+)*(?:\\.0+)?");

  private final ArrayNode problems = JsonNodeFactory.instance.arrayNode();

  /**
   * What the body names.
   *
   * @param addr {@code null} where it may be missing and is
   */
  record Worker(String engineId, int dpRank, int tpRank, int ppRank, @Nullable String addr) {}

  /**
   * Reads the body.
   *
   * @param contentType the header, {@code null} if it is missing
   * @param addrRequired whether {@code addr} must be there
   * @return {@code null} if there are {@link #problems()}
   */
  @Nullable Worker read(byte[] body, @Nullable String contentType, boolean addrRequired) {
    JsonNode root = parse(body, contentType);
    if (root == null) {
      return null;
    }
    if (!root.isObject()) {
      add(
          "model_attributes_type",
          null,
          "Input should be a valid dictionary or object to extract fields from",
          root);
      return null;
    }
    String engineId = text(root, "engine_id", true);
    int dpRank = rank(root, "dp_rank");
    int tpRank = rank(root, "tp_rank");
    int ppRank = rank(root, "pp_rank");
    String addr = text(root, "addr", addrRequired);
    if (!problems.isEmpty() || engineId == null) {
      return null;
    }
    return new Worker(engineId, dpRank, tpRank, ppRank, addr);
  }

  /** What is wrong with the body, one entry for each fault. */
  ArrayNode problems() {
    return problems;
  }

  private @Nullable JsonNode parse(byte[] body, @Nullable String contentType) {
    if (body.length == 0) {
      add("missing", null, "Field required", JsonNodeFactory.instance.nullNode());
      return null;
    }
    if (!isJson(contentType)) {
      // FastAPI hands such a body on as it is, and the model then finds that it is no object.
      return JsonNodeFactory.instance.stringNode(new String(body, StandardCharsets.UTF_8));
    }
    JsonNode root;
    try {
      root = Json.MAPPER.readTree(body);
    } catch (JacksonException e) {
      addInvalidJson(body, e);
      return null;
    }
    if (root.isMissingNode()) {
      addInvalidJson(body, null);
      return null;
    }
    return root;
  }

  private static boolean isJson(@Nullable String contentType) {
    if (contentType == null) {
      return false;
    }
    int end = contentType.indexOf(';');
    String type =
        (end < 0 ? contentType : contentType.substring(0, end)).strip().toLowerCase(Locale.ROOT);
    return type.equals("application/json")
        || (type.startsWith("application/") && type.endsWith("+json"));
  }

  private @Nullable String text(JsonNode root, String name, boolean required) {
    JsonNode value = root.get(name);
    if (value == null) {
      if (required) {
        add("missing", name, "Field required", root);
      }
      return null;
    }
    if (value.isNull() && !required) {
      return null;
    }
    if (!value.isString()) {
      add("string_type", name, "Input should be a valid string", value);
      return null;
    }
    String text = value.stringValue();
    if (text.isEmpty()) {
      add("string_too_short", name, "String should have at least 1 character", value)
          .putObject("ctx")
          .put("min_length", 1);
    } else if (text.length() > RegisterRequest.MAX_TEXT) {
      add(
              "string_too_long",
              name,
              "String should have at most " + RegisterRequest.MAX_TEXT + " characters",
              value)
          .putObject("ctx")
          .put("max_length", RegisterRequest.MAX_TEXT);
    } else if (!RegisterRequest.isWellFormed(text)) {
      add(
          "string_unicode",
          name,
          "Input should be a valid string, unable to parse raw data as a unicode string",
          value);
    }
    return text;
  }

  /** The rank, or -1 after noting what is wrong. */
  private int rank(JsonNode root, String name) {
    JsonNode value = root.get(name);
    if (value == null) {
      add("missing", name, "Field required", root);
      return -1;
    }
    BigInteger number;
    if (value.isBoolean()) {
      number = value.booleanValue() ? BigInteger.ONE : BigInteger.ZERO;
    } else if (value.isIntegralNumber()) {
      number = value.bigIntegerValue();
    } else if (value.isNumber()) {
      number = whole(value.doubleValue());
      if (number == null) {
        add(
            "int_from_float",
            name,
            "Input should be a valid integer, got a number with a fractional part",
            value);
        return -1;
      }
    } else if (value.isString()) {
      number = parse(value.stringValue().strip());
      if (number == null) {
        add(
            "int_parsing",
            name,
            "Input should be a valid integer, unable to parse string as an integer",
            value);
        return -1;
      }
    } else {
      add("int_type", name, "Input should be a valid integer", value);
      return -1;
    }
    if (number.signum() < 0) {
      add("greater_than_equal", name, "Input should be greater than or equal to 0", value)
          .putObject("ctx")
          .put("ge", 0);
      return -1;
    }
    if (number.compareTo(BigInteger.valueOf(RegisterRequest.MAX_RANK)) > 0) {
      add(
              "less_than_equal",
              name,
              "Input should be less than or equal to " + RegisterRequest.MAX_RANK,
              value)
          .putObject("ctx")
          .put("le", RegisterRequest.MAX_RANK);
      return -1;
    }
    return number.intValueExact();
  }

  private static @Nullable BigInteger whole(double number) {
    return Double.isFinite(number) && number == Math.rint(number)
        ? new BigDecimal(number).toBigInteger()
        : null;
  }

  private static @Nullable BigInteger parse(String text) {
    if (text.length() > 100 || !INTEGER.matcher(text).matches()) {
      return null;
    }
    int point = text.indexOf('.');
    String digits = (point < 0 ? text : text.substring(0, point)).replace("_", "");
    return new BigInteger(digits);
  }

  private void addInvalidJson(byte[] body, @Nullable JacksonException failure) {
    int start = 0;
    while (start < body.length && " \t\r\n".indexOf(body[start]) >= 0) {
      start++;
    }
    // Python stops where a value should begin; where one did begin, our parser says what it missed.
    boolean begun = start < body.length && "{[\"-0123456789".indexOf(body[start]) >= 0;
    String error = "Expecting value";
    long at = start;
    if (failure != null && begun) {
      error = ErrorText.printable(failure.getOriginalMessage(), 200);
      at =
          failure.getLocation() == null
              ? start
              : Math.max(0, failure.getLocation().getByteOffset());
    }
    ObjectNode problem = problems.addObject();
    problem.put("type", "json_invalid");
    problem.putArray("loc").add("body").add(at);
    problem.put("msg", "JSON decode error");
    problem.putObject("input");
    problem.putObject("ctx").put("error", error);
  }

  private ObjectNode add(String type, @Nullable String field, String message, JsonNode input) {
    ObjectNode problem = problems.addObject();
    problem.put("type", type);
    ArrayNode loc = problem.putArray("loc").add("body");
    if (field != null) {
      loc.add(field);
    }
    problem.put("msg", message);
    problem.set("input", input);
    return problem;
  }
}
