package dev.mooncake4j.bench;

import org.jspecify.annotations.Nullable;

/**
 * A target and what was measured of it.
 *
 * @param figure what is measured
 * @param ours our value, or {@code null} where it was not measured
 * @param peer the value that it is compared with, or {@code null}
 * @param unit of both
 * @param ratio ours over the peer's, where both are there and the peer's is more than 0
 * @param target in words
 * @param met whether the target is met, or {@code null} where that cannot be said
 */
record Figure(
    String figure,
    @Nullable Double ours,
    @Nullable Double peer,
    String unit,
    @Nullable Double ratio,
    String target,
    @Nullable Boolean met) {

  /** What a target demands. */
  enum Rule {
    RATIO_AT_LEAST,
    RATIO_AT_MOST,
    /** Ours is at most so much more than the peer's. */
    DIFFERENCE_AT_MOST,
    /** Ours is less than the bound, whatever the peer's. */
    BELOW
  }

  static Figure of(
      String figure,
      @Nullable Double ours,
      @Nullable Double peer,
      String unit,
      Rule rule,
      double bound,
      String target) {
    Double ratio = (ours == null || peer == null || peer <= 0) ? null : ours / peer;
    Boolean met =
        switch (rule) {
          case RATIO_AT_LEAST -> ratio == null ? null : ratio >= bound;
          case RATIO_AT_MOST -> ratio == null ? null : ratio <= bound;
          case DIFFERENCE_AT_MOST ->
              (ours == null || peer == null) ? null : (Boolean) (ours - peer <= bound);
          case BELOW -> ours == null ? null : (Boolean) (ours < bound);
        };
    return new Figure(figure, ours, peer, unit, ratio, target, met);
  }
}
