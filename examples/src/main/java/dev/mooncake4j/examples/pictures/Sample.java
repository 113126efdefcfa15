package dev.mooncake4j.examples.pictures;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One figure of a scrape: a name, labels, and a value. */
record Sample(String name, Map<String, String> labels, double value) {
  private static final Pattern LINE =
      Pattern.compile("([a-zA-Z_:][\\w:]*)(?:\\{(.*)})?\\s+(\\S+)(?:\\s+-?\\d+)?");
  private static final Pattern LABEL = Pattern.compile("(\\w+)=\"((?:[^\"\\\\]|\\\\.)*)\"");

  /**
   * Reads Prometheus' text format.
   *
   * @param instance the label that tells one server's figures from another's
   * @throws IllegalArgumentException naming the line that is none of it
   */
  static List<Sample> parse(String text, String instance) {
    List<Sample> samples = new ArrayList<>();
    for (String line : text.lines().toList()) {
      if (line.isBlank() || line.startsWith("#")) {
        continue;
      }
      Matcher matcher = LINE.matcher(line.strip());
      if (!matcher.matches()) {
        throw new IllegalArgumentException("no line of a Prometheus scrape: line=" + line);
      }
      Map<String, String> labels = new HashMap<>();
      if (matcher.group(2) != null) {
        Matcher label = LABEL.matcher(matcher.group(2));
        while (label.find()) {
          labels.put(label.group(1), unescaped(label.group(2)));
        }
      }
      labels.put("instance", instance);
      samples.add(new Sample(matcher.group(1), Map.copyOf(labels), number(matcher.group(3))));
    }
    return samples;
  }

  /** As Prometheus writes numbers: bounds of buckets too. */
  static double number(String text) {
    return switch (text) {
      case "+Inf", "Inf" -> Double.POSITIVE_INFINITY;
      case "-Inf" -> Double.NEGATIVE_INFINITY;
      default -> Double.parseDouble(text);
    };
  }

  private static String unescaped(String value) {
    return value.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
  }
}
