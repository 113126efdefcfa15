package dev.mooncake4j.examples.pictures;

import java.time.Instant;

/**
 * When a client sent a request, and had the first and the last of its answer.
 *
 * @param traceId by which the request is found in recordings and logs
 */
record RequestTimes(String traceId, Instant sent, Instant first, Instant end) {

  /** As a line of a file. */
  String line() {
    return String.join(" ", traceId, sent.toString(), first.toString(), end.toString());
  }

  static RequestTimes parse(String line) {
    String[] parts = line.split(" ", -1);
    if (parts.length != 4) {
      throw new IllegalArgumentException("not the times of a request: line=" + line);
    }
    return new RequestTimes(
        parts[0], Instant.parse(parts[1]), Instant.parse(parts[2]), Instant.parse(parts[3]));
  }
}
