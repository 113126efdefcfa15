package dev.mooncake4j.bench;

import java.util.List;

/**
 * One measurement.
 *
 * @param seconds of each request
 * @param total seconds from the first start to the last end
 * @param allocatedFrom heap bytes that the prefiller allocated meanwhile, or -1
 * @param allocatedTo heap bytes that the decoder allocated meanwhile, or -1
 */
record Measured(List<Double> seconds, double total, long allocatedFrom, long allocatedTo) {
  static Measured of(List<Double> seconds, double total) {
    return new Measured(seconds, total, -1, -1);
  }
}
