package dev.mooncake4j.examples.pictures;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The few forms of PromQL that the dashboard has, computed over snapshots: a sum of gauges or of
 * rates, by one label or none, and a quantile of a histogram's rate. Label selectors are not looked
 * at: what was scraped is what the dashboard's variables would select.
 *
 * @param quantile from 0 to 1; not a number where it is a sum
 * @param rate whether counters are counted per second
 * @param by the label that the lines differ in; empty for one line
 * @param metric the name on a scrape
 */
record Query(double quantile, boolean rate, String by, String metric) {
  /** What {@code $__rate_interval} is here, in seconds. */
  static final double RATE_SECONDS = 10;

  private static final String SERIES = "([a-zA-Z_:][\\w:]*)\\{[^}]*}";
  private static final Pattern SUM =
      Pattern.compile(
          "sum(?: by \\((\\w+)\\))? ?\\((?:rate\\("
              + SERIES
              + "\\[\\$__rate_interval]\\)|"
              + SERIES
              + ")\\)");
  private static final Pattern QUANTILE =
      Pattern.compile("histogram_quantile\\(([\\d.]+), (sum by \\(le\\) .*)\\)");

  /**
   * Reads an expression of the dashboard.
   *
   * @throws IllegalArgumentException if it has none of the forms
   */
  static Query parse(String expression) {
    Matcher quantile = QUANTILE.matcher(expression);
    if (quantile.matches()) {
      Query inner = parse(quantile.group(2));
      return new Query(Double.parseDouble(quantile.group(1)), inner.rate, inner.by, inner.metric);
    }
    Matcher sum = SUM.matcher(expression);
    if (!sum.matches()) {
      throw new IllegalArgumentException(
          "an expression that cannot be drawn: expr=" + expression + "; give Query its form");
    }
    String by = sum.group(1) == null ? "" : sum.group(1);
    String ofRate = sum.group(2);
    return ofRate != null
        ? new Query(Double.NaN, true, by, ofRate)
        : new Query(Double.NaN, false, by, sum.group(3));
  }

  /**
   * The lines over time.
   *
   * @param legend Grafana's, where <code>{{label}}</code> stands for the label's value
   */
  List<Line> lines(List<Snapshot> snapshots, String legend) {
    List<Map<String, Double>> sums = snapshots.stream().map(this::sums).toList();
    if (!Double.isNaN(quantile)) {
      List<Line.Point> points = new ArrayList<>();
      for (int i = 0; i < sums.size(); i++) {
        points.add(
            new Line.Point(snapshots.get(i).seconds(), quantile(perSecond(snapshots, sums, i))));
      }
      return List.of(new Line(legend, points));
    }
    NavigableMap<String, List<Line.Point>> lines = new TreeMap<>();
    for (int i = 0; i < sums.size(); i++) {
      double seconds = snapshots.get(i).seconds();
      (rate ? perSecond(snapshots, sums, i) : sums.get(i))
          .forEach(
              (key, value) ->
                  lines
                      .computeIfAbsent(key, k -> new ArrayList<>())
                      .add(new Line.Point(seconds, value)));
    }
    return lines.entrySet().stream()
        .map(e -> new Line(legend.replace("{{" + by + "}}", e.getKey()), e.getValue()))
        .toList();
  }

  private Map<String, Double> sums(Snapshot snapshot) {
    Map<String, Double> sums = new HashMap<>();
    for (Sample sample : snapshot.samples()) {
      if (sample.name().equals(metric)) {
        sums.merge(
            by.isEmpty() ? "" : sample.labels().getOrDefault(by, ""), sample.value(), Double::sum);
      }
    }
    return sums;
  }

  /** How fast each sum grew up to a snapshot; nothing for the first one. */
  private static Map<String, Double> perSecond(
      List<Snapshot> snapshots, List<Map<String, Double>> sums, int at) {
    int from = at;
    while (from > 0
        && snapshots.get(at).seconds() - snapshots.get(from - 1).seconds() <= RATE_SECONDS) {
      from--;
    }
    double seconds = snapshots.get(at).seconds() - snapshots.get(from).seconds();
    Map<String, Double> rates = new HashMap<>();
    if (seconds > 0) {
      Map<String, Double> before = sums.get(from);
      sums.get(at)
          .forEach(
              (key, value) ->
                  rates.put(key, Math.max(0, value - before.getOrDefault(key, 0.0)) / seconds));
    }
    return rates;
  }

  /** As histogram_quantile does it: a value lies anywhere within its bucket. */
  private double quantile(Map<String, Double> buckets) {
    NavigableMap<Double, Double> cumulative = new TreeMap<>();
    buckets.forEach((bound, count) -> cumulative.put(Sample.number(bound), count));
    Map.Entry<Double, Double> all = cumulative.lastEntry();
    if (all == null || all.getValue() <= 0) {
      return Double.NaN;
    }
    double rank = quantile * all.getValue();
    double lower = 0;
    double below = 0;
    for (Map.Entry<Double, Double> bucket : cumulative.entrySet()) {
      if (bucket.getValue() >= rank) {
        return within(lower, below, bucket, rank);
      }
      lower = bucket.getKey();
      below = bucket.getValue();
    }
    return lower;
  }

  private static double within(
      double lower, double below, Map.Entry<Double, Double> bucket, double rank) {
    double inside = bucket.getValue() - below;
    if (Double.isInfinite(bucket.getKey()) || inside <= 0) {
      return lower;
    }
    return lower + (bucket.getKey() - lower) * (rank - below) / inside;
  }
}
