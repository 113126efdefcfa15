package dev.mooncake4j.core.report;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.trace.Stage;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One line for each request that fails: {@code name=value} pairs, values in quotes where they need
 * them, so that a machine reads it too.
 *
 * <p>At most {@value #LINES} lines a second: the others are counted, and the next line that is
 * written says how many they were. For one thread, as its owner is.
 */
public final class FailureLog {
  /** Lines a second at most. */
  static final int LINES = 10;

  private static final long SECOND_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final int MAX_ID_CHARS = 128;
  private static final int MAX_REASON_CHARS = 1024;

  private static final Logger log = LoggerFactory.getLogger(FailureLog.class);

  private final NanoClock clock;
  private long second;
  private int written;
  private long suppressed;

  /** A log on a clock. */
  public FailureLog(NanoClock clock) {
    this.clock = clock;
    this.second = clock.nanoTime() - SECOND_NANOS;
  }

  /** What a line tells beside the request's names. */
  public record Told(
      FailureStage stage,
      @Nullable String peer,
      int blocks,
      @Nullable Boolean quiet,
      @Nullable String peerRequestId,
      String reason) {}

  /** A request has failed. */
  public void failed(Stage.Side side, RequestNames names, Told told) {
    long now = clock.nanoTime();
    if (now - second >= SECOND_NANOS) {
      second = now;
      written = 0;
    }
    if (written >= LINES) {
      suppressed++;
      return;
    }
    written++;
    log.warn("request failed {}", line(side, names, told));
    suppressed = 0;
  }

  private String line(Stage.Side side, RequestNames names, Told told) {
    StringBuilder line = new StringBuilder(256).append("side=").append(side.text());
    add(line, "request_id", names.requestId(), MAX_ID_CHARS);
    add(line, "transfer_id", names.transferId(), MAX_ID_CHARS);
    add(line, "stage", told.stage().name().toLowerCase(Locale.ROOT), MAX_ID_CHARS);
    add(line, "peer", told.peer(), MAX_ID_CHARS);
    add(line, "peer_request_id", told.peerRequestId(), MAX_ID_CHARS);
    line.append(" blocks=").append(told.blocks());
    if (told.quiet() != null) {
      line.append(" quiet=").append(told.quiet());
    }
    add(line, "trace_id", names.traceId(), MAX_ID_CHARS);
    if (suppressed > 0) {
      line.append(" suppressed=").append(suppressed);
    }
    add(line, "reason", told.reason(), MAX_REASON_CHARS);
    return line.toString();
  }

  private static void add(StringBuilder line, String name, @Nullable String value, int maxChars) {
    if (value == null || value.isEmpty()) {
      return;
    }
    line.append(' ').append(name).append('=');
    int end = Math.min(value.length(), maxChars);
    boolean plain = end == value.length();
    for (int i = 0; i < end && plain; i++) {
      char c = value.charAt(i);
      plain = c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
    }
    if (plain) {
      line.append(value);
      return;
    }
    line.append('"');
    for (int i = 0; i < end; i++) {
      char c = value.charAt(i);
      if (c == '"' || c == '\\') {
        line.append('\\').append(c);
      } else {
        // What would break the line, or colour a terminal, is not passed on.
        line.append(Character.isISOControl(c) || c == '\u2028' || c == '\u2029' ? '?' : c);
      }
    }
    line.append(end < value.length() ? "…\"" : "\"");
  }
}
