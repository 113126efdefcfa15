package dev.mooncake4j.bench.gpu;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * The results in a folder: a file for each case as it comes, the summary after each, and a table at
 * the end. One thread at a time.
 */
final class Report {
  private static final double CONTIGUOUS_TARGET = 0.9;
  private static final double SCATTERED_TARGET = 2.5;
  private static final List<String> HEAD =
      List.of(
          "transport",
          "cache",
          "blocks",
          "pattern",
          "descs",
          "pull ms",
          "pull GB/s",
          "write GB/s",
          "bare GB/s",
          "plain GB/s",
          "x bare",
          "x plain");

  private final Path folder;
  private final List<Result> results = new ArrayList<>();
  private final JsonMapper json =
      JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

  Report(Path folder) throws IOException {
    this.folder = folder;
    Files.createDirectories(folder);
  }

  void raw(String name, Object value) throws IOException {
    Files.writeString(folder.resolve(name + ".json"), json.writeValueAsString(value));
  }

  /** Writes a case and what is known so far. */
  void add(Result result) throws IOException {
    results.add(result);
    raw("gpu_" + result.name(), result.toMap());
    raw("summary", summary());
  }

  /**
   * One figure against its target.
   *
   * @param ratio of ours to the peer's
   */
  record Figure(
      String figure,
      double ours,
      double peer,
      String unit,
      double ratio,
      double target,
      boolean met) {}

  /** A figure for each target and cache, of the largest request through CUDA IPC. */
  private List<Figure> summary() {
    List<Figure> figures = new ArrayList<>();
    for (Result result : results) {
      if (result.transport().equals("tcp") || result.count() != largest(result)) {
        continue;
      }
      String name = "gpu_" + result.name();
      double ours = result.oursRate();
      if (result.pattern() == Pattern.CONTIGUOUS) {
        double plain = result.plainRate();
        figures.add(figure(name + "_to_plain_copy", ours, plain, CONTIGUOUS_TARGET));
        // Without the question and the answer, a millisecond that does not grow with the bytes.
        figures.add(
            figure(name + "_write_to_plain_copy", result.writeRate(), plain, CONTIGUOUS_TARGET));
      } else {
        figures.add(figure(name + "_to_one_batch", ours, result.bareRate(), SCATTERED_TARGET));
      }
    }
    return figures;
  }

  private static Figure figure(String name, double ours, double peer, double target) {
    double ratio = ours / peer;
    return new Figure(name, ours, peer, "GB/s", ratio, target, ratio >= target);
  }

  private int largest(Result of) {
    int largest = 0;
    for (Result result : results) {
      if (result.transport().equals(of.transport()) && result.shapeName().equals(of.shapeName())) {
        largest = Math.max(largest, result.count());
      }
    }
    return largest;
  }

  /** Prints the table and the targets, and writes both. */
  void finish() throws IOException {
    StringBuilder text = new StringBuilder();
    text.append("| ").append(String.join(" | ", HEAD)).append(" |\n");
    text.append("| --- ".repeat(HEAD.size())).append("|\n");
    for (Result result : results) {
      text.append("| ").append(String.join(" | ", result.row())).append(" |\n");
    }
    text.append('\n');
    for (Figure figure : summary()) {
      text.append(
          String.format(
              Locale.ROOT,
              "%-60s ours %8.1f peer %8.1f %s ratio %6.3f target %.1f %s%n",
              figure.figure(),
              figure.ours(),
              figure.peer(),
              figure.unit(),
              figure.ratio(),
              figure.target(),
              figure.met() ? "met" : "NOT MET"));
    }
    Files.writeString(folder.resolve("table.md"), text);
    System.out.println();
    System.out.print(text);
    System.out.flush();
  }
}
