package dev.mooncake4j.examples.pictures;

import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The proxy's times of a request, from its log: a line at each request's end, in milliseconds. */
final class ProxyLog {
  private static final Pattern PAIR = Pattern.compile(" (prefill_ms|first_ms|total_ms)=(\\d+)");

  private ProxyLog() {}

  /** The bars of a trace's request; none where the log does not have it. */
  static List<Bar> bars(List<String> log, String traceId) {
    List<Bar> bars = new ArrayList<>();
    for (String line : log) {
      if (!line.contains(" trace_id=" + traceId + " ")) {
        continue;
      }
      long prefill = -1;
      long first = -1;
      long total = 0;
      Matcher pair = PAIR.matcher(line);
      while (pair.find()) {
        long millis = Long.parseLong(pair.group(2));
        switch (pair.group(1)) {
          case "prefill_ms" -> prefill = millis;
          case "first_ms" -> first = millis;
          default -> total = millis;
        }
      }
      Instant end = OffsetDateTime.parse(line.substring(0, line.indexOf(' '))).toInstant();
      Instant start = end.minusMillis(total);
      if (prefill >= 0) {
        bars.add(new Bar("proxy", "prefill request", start, start.plusMillis(prefill), ""));
      }
      if (first >= 0) {
        bars.add(new Bar("proxy", "decode: to headers", start, start.plusMillis(first), ""));
        bars.add(new Bar("proxy", "decode: stream", start.plusMillis(first), end, ""));
      }
    }
    return bars;
  }
}
