package dev.mooncake4j.connector;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * A request's place in a distributed trace: what the W3C header {@code traceparent} says.
 *
 * <p>Immutable. The connector starts no spans of its own: it puts the trace's id on its events and
 * its failures, so that they are found from the trace of the server.
 *
 * @param traceId the trace: 32 lower-case hexadecimal digits, not all 0
 * @param parentId the span that has sent the request: 16 such digits, not all 0
 * @param flags the trace's flags, 0 to 255; bit 0 says that it is recorded
 */
public record TraceContext(String traceId, String parentId, int flags) implements Serializable {
  private static final int TRACE_ID = 32;
  private static final int PARENT_ID = 16;

  /** Length of the header in version 00; a later version may have more, after another dash. */
  private static final int LENGTH = 55;

  /** Checks the digits and the range. */
  public TraceContext {
    if (!isId(traceId, TRACE_ID)) {
      throw new IllegalArgumentException(
          "trace_id has to be 32 lower-case hexadecimal digits, not all 0");
    }
    if (!isId(parentId, PARENT_ID)) {
      throw new IllegalArgumentException(
          "parent_id has to be 16 lower-case hexadecimal digits, not all 0");
    }
    if (flags < 0 || flags > 0xff) {
      throw new IllegalArgumentException("trace_flags=" + flags + " is not 0 to 255");
    }
  }

  /**
   * Reads a {@code traceparent} as the W3C's Trace Context says.
   *
   * @param traceparent the header's value, {@code version-traceid-parentid-flags}
   * @return {@code null} for anything that is not one: a receiver then goes on as if there were
   *     none
   */
  public static @Nullable TraceContext parse(@Nullable String traceparent) {
    if (traceparent == null || traceparent.length() < LENGTH) {
      return null;
    }
    String version = traceparent.substring(0, 2);
    if (!isHex(version) || version.equals("ff")) {
      return null;
    }
    if (traceparent.length() > LENGTH
        && (version.equals("00") || traceparent.charAt(LENGTH) != '-')) {
      return null;
    }
    if (traceparent.charAt(2) != '-'
        || traceparent.charAt(35) != '-'
        || traceparent.charAt(52) != '-') {
      return null;
    }
    String traceId = traceparent.substring(3, 35);
    String parentId = traceparent.substring(36, 52);
    String flags = traceparent.substring(53, LENGTH);
    if (!isId(traceId, TRACE_ID) || !isId(parentId, PARENT_ID) || !isHex(flags)) {
      return null;
    }
    return new TraceContext(traceId, parentId, Integer.parseInt(flags, 16));
  }

  /** The header's value, in version 00. */
  public String traceparent() {
    return "00-"
        + traceId
        + '-'
        + parentId
        + (flags < 0x10 ? "-0" : "-")
        + Integer.toHexString(flags);
  }

  private static boolean isId(String text, int length) {
    return text.length() == length && isHex(text) && text.chars().anyMatch(c -> c != '0');
  }

  private static boolean isHex(String text) {
    return text.chars().allMatch(c -> (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
  }
}
