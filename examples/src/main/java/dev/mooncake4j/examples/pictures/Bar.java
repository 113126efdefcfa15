package dev.mooncake4j.examples.pictures;

import java.time.Duration;
import java.time.Instant;

/**
 * One stage of one request.
 *
 * @param side who went through it: client, proxy, decoder or prefiller
 * @param outcome how it ended; empty where nobody said
 */
record Bar(String side, String stage, Instant start, Instant end, String outcome) {

  double millis() {
    return Duration.between(start, end).toNanos() / 1e6;
  }
}
