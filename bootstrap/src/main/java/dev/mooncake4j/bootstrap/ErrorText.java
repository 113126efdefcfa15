package dev.mooncake4j.bootstrap;

import java.nio.charset.StandardCharsets;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/** What a peer sent, made fit for a message of ours: short, and on one line. */
final class ErrorText {

  /** The longest text of a server that is repeated: two addresses and an engine id fit. */
  private static final int MAX_DETAIL = 2048;

  private ErrorText() {}

  /** At most {@code max} characters, control characters replaced. */
  static String printable(String text, int max) {
    StringBuilder out = new StringBuilder(Math.min(text.length(), max) + 3);
    for (int i = 0; i < text.length() && i < max; i++) {
      char c = text.charAt(i);
      out.append(Character.isISOControl(c) || Character.getType(c) == Character.FORMAT ? '?' : c);
    }
    return text.length() > max ? out.append("...").toString() : out.toString();
  }

  /** What an error answer says: its {@code detail} where it has one, else the body. */
  static String detail(byte[] body) {
    String text = new String(body, StandardCharsets.UTF_8);
    try {
      JsonNode detail = Json.MAPPER.readTree(body).get("detail");
      if (detail != null) {
        text = detail.isString() ? detail.stringValue() : detail.toString();
      }
    } catch (JacksonException e) {
      // Not JSON, as from a proxy in between: the body itself is the text.
      return printable(text, MAX_DETAIL);
    }
    return printable(text, MAX_DETAIL);
  }

  /** The type of a failure and the first text found along its causes. */
  static String describe(Throwable failure) {
    Throwable told = failure;
    while (told.getMessage() == null && told.getCause() != null) {
      told = told.getCause();
    }
    String text = told.getMessage();
    return failure.getClass().getSimpleName()
        + (text == null ? "" : ": " + printable(text, MAX_DETAIL));
  }
}
