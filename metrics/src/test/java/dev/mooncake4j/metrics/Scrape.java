package dev.mooncake4j.metrics;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Prometheus' text format, read back for comparison. */
final class Scrape {
  private static final Pattern SAMPLE = Pattern.compile("([^{ ]+)\\{([^}]*)} (\\S+)");
  private static final Pattern LABEL = Pattern.compile("([a-z_]+)=\"([^\"]*)\"");

  private Scrape() {}

  /** One line, its numbers (also that of {@code le}) as numbers: 1e7, 1.0E7 and 10000000 agree. */
  record Sample(String name, Map<String, String> labels, double value) {}

  static List<Sample> samples(String text) {
    List<Sample> samples = new ArrayList<>();
    for (String line : text.lines().toList()) {
      if (line.isBlank() || line.startsWith("#")) {
        continue;
      }
      Matcher sample = SAMPLE.matcher(line);
      if (!sample.matches()) {
        throw new IllegalArgumentException("not a sample: " + line);
      }
      Map<String, String> labels = new TreeMap<>();
      Matcher label = LABEL.matcher(sample.group(2));
      while (label.find()) {
        String value = label.group(2);
        boolean bound = label.group(1).equals("le") && !value.equals("+Inf");
        labels.put(label.group(1), bound ? Double.toString(Double.parseDouble(value)) : value);
      }
      samples.add(new Sample(sample.group(1), labels, Double.parseDouble(sample.group(3))));
    }
    return samples;
  }

  static String resource(String name) {
    try (InputStream in = Objects.requireNonNull(Scrape.class.getResourceAsStream(name), name)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
