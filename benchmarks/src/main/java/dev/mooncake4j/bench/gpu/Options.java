package dev.mooncake4j.bench.gpu;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * What the benchmark is asked to do.
 *
 * @param mode what runs
 * @param quick few rounds of few cases
 * @param hostMemory host memory in place of a device's, over tcp: a rehearsal
 * @param out the folder for results
 * @param counts blocks of the requests, or empty for the mode's own
 * @param caseNanos after which a case has no more than three rounds
 * @param jvmArguments for both peers
 * @param environment of both peers, beside this process's
 */
record Options(
    Mode mode,
    boolean quick,
    boolean hostMemory,
    Path out,
    List<Integer> counts,
    long caseNanos,
    List<String> jvmArguments,
    Map<String, String> environment) {

  private static final String USAGE =
      "options: [--probe | --explore] [--quick] [--host-memory] [--out FOLDER] [--engine FILE]"
          + " [--counts N,N] [--case-seconds N] [--jvm ARGUMENT]... [--env NAME=VALUE]...";

  /** What runs. */
  enum Mode {
    /** All cases. */
    BENCH,
    /** One small transfer over each transport. */
    PROBE,
    /** What scattered copies cost, and with how many threads and how large batches. */
    EXPLORE
  }

  /** Reads the arguments. */
  static Options parse(String[] args) {
    Mode mode = Mode.BENCH;
    boolean quick = false;
    boolean hostMemory = false;
    Path out = Path.of("gpu-bench-results");
    List<Integer> counts = new ArrayList<>();
    int caseSeconds = 0;
    List<String> jvmArguments = new ArrayList<>();
    Map<String, String> environment = new HashMap<>();
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--probe" -> mode = Mode.PROBE;
        case "--explore" -> mode = Mode.EXPLORE;
        case "--quick" -> quick = true;
        case "--host-memory" -> hostMemory = true;
        case "--out" -> out = Path.of(value(args, ++i));
        case "--engine" ->
            environment.put(
                "MOONCAKE4J_ENGINE_LIBRARY", Path.of(value(args, ++i)).toAbsolutePath().toString());
        case "--counts" -> {
          for (String count : value(args, ++i).split(",", -1)) {
            counts.add(Integer.parseInt(count));
          }
        }
        case "--case-seconds" -> caseSeconds = Integer.parseInt(value(args, ++i));
        case "--jvm" -> jvmArguments.add(value(args, ++i));
        case "--env" -> {
          String[] pair = value(args, ++i).split("=", 2);
          if (pair.length != 2) {
            throw new IllegalArgumentException("--env takes NAME=VALUE; " + USAGE);
          }
          environment.put(pair[0], pair[1]);
        }
        default -> throw new IllegalArgumentException("unknown option " + args[i] + "; " + USAGE);
      }
    }
    if (caseSeconds == 0) {
      caseSeconds = quick ? 4 : 35;
    }
    return new Options(
        mode,
        quick,
        hostMemory,
        out,
        List.copyOf(counts),
        TimeUnit.SECONDS.toNanos(caseSeconds),
        List.copyOf(jvmArguments),
        Map.copyOf(environment));
  }

  private static String value(String[] args, int index) {
    if (index >= args.length) {
      throw new IllegalArgumentException(args[index - 1] + " needs a value; " + USAGE);
    }
    return args[index];
  }

  /** How the peers are started. */
  Pair.Setting peers() {
    return new Pair.Setting(jvmArguments, environment, out.resolve("logs"));
  }
}
