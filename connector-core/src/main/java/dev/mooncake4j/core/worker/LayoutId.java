package dev.mooncake4j.core.worker;

import java.util.random.RandomGenerator;

/** Draws the name of a layout: random, odd, 63 bits, as vLLM's. */
final class LayoutId {
  private LayoutId() {}

  static long draw(RandomGenerator random) {
    return (random.nextLong() >>> 1) | 1;
  }
}
