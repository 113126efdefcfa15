package dev.mooncake4j.bench.measure;

import java.util.Arrays;
import java.util.Collection;

/** Measured values, at least one, and what is read from them. Immutable. */
public final class Samples {
  private final double[] sorted;

  /** The values; at least one. */
  public Samples(double... values) {
    if (values.length == 0) {
      throw new IllegalArgumentException("no values: run at least one round");
    }
    sorted = values.clone();
    Arrays.sort(sorted);
  }

  /** The same of a collection. */
  public static Samples of(Collection<Double> values) {
    return new Samples(values.stream().mapToDouble(Double::doubleValue).toArray());
  }

  /** The middle value, or the mean of the two in the middle. */
  public double median() {
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  /** The smallest value that at least {@code percent} of the values do not exceed. */
  public double percentile(double percent) {
    int rank = (int) Math.ceil(percent / 100 * sorted.length);
    return sorted[Math.clamp(rank - 1, 0, sorted.length - 1)];
  }

  /** The smallest. */
  public double min() {
    return sorted[0];
  }

  /** The largest. */
  public double max() {
    return sorted[sorted.length - 1];
  }

  /** How many there are. */
  public int count() {
    return sorted.length;
  }
}
