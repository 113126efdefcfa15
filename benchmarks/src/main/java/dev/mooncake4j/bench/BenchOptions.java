package dev.mooncake4j.bench;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What {@code ./bench.sh} was asked for.
 *
 * @param parts what is measured
 * @param rounds measured rounds of each
 * @param blocks sizes of one request
 * @param vllmPython the Python that has vLLM, or {@code null} to leave vLLM out
 * @param vllmPrograms the folder of the programs that it runs
 * @param out where the numbers and the peers' logs go
 */
record BenchOptions(
    Set<Part> parts,
    int rounds,
    List<Integer> blocks,
    @Nullable Path vllmPython,
    Path vllmPrograms,
    Path out) {

  static final int ROUNDS = 9;
  static final int QUICK_ROUNDS = 3;
  static final List<Integer> BLOCKS = List.of(1, 8, 64, 256, 2000);
  static final List<Integer> QUICK_BLOCKS = List.of(8, 64);

  /** What can be measured by itself. */
  enum Part {
    PLANNING,
    ONE_REQUEST,
    MANY,
    SENDING,
    CONTROL,
    MEMORY,
    CEILINGS;

    /** Its name on the command line and of its file. */
    String title() {
      return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
  }

  /**
   * Reads the command line.
   *
   * @throws IllegalArgumentException with what is wrong
   */
  static BenchOptions parse(String... args) {
    Set<Part> parts = EnumSet.noneOf(Part.class);
    int rounds = 0;
    boolean quick = false;
    List<Integer> blocks = List.of();
    Path python = null;
    Path programs = Path.of("benchmarks", "vllm");
    Path out = Path.of("target", "bench");
    for (int i = 0; i < args.length; i++) {
      String option = args[i];
      if (option.equals("--quick")) {
        quick = true;
        continue;
      }
      if (i + 1 == args.length) {
        throw new IllegalArgumentException("option " + option + " is not known or has no value");
      }
      String value = args[++i];
      switch (option) {
        case "--only" -> parts.add(part(value));
        case "--rounds" -> rounds = number(option, value);
        case "--blocks" -> blocks = numbers(option, value);
        case "--vllm-python" -> python = Path.of(value);
        case "--vllm-programs" -> programs = Path.of(value);
        case "--out" -> out = Path.of(value);
        default -> throw new IllegalArgumentException("option " + option + " is not known");
      }
    }
    if (rounds == 0) {
      rounds = quick ? QUICK_ROUNDS : ROUNDS;
    }
    if (blocks.isEmpty()) {
      blocks = quick ? QUICK_BLOCKS : BLOCKS;
    }
    return new BenchOptions(
        parts.isEmpty() ? EnumSet.allOf(Part.class) : parts, rounds, blocks, python, programs, out);
  }

  private static Part part(String value) {
    List<String> known = new ArrayList<>();
    for (Part part : Part.values()) {
      if (part.title().equals(value)) {
        return part;
      }
      known.add(part.title());
    }
    throw new IllegalArgumentException("--only " + value + " is none of " + known);
  }

  private static List<Integer> numbers(String option, String value) {
    List<Integer> numbers = new ArrayList<>();
    for (String each : value.split(",", -1)) {
      numbers.add(number(option, each));
    }
    return numbers;
  }

  private static int number(String option, String value) {
    try {
      int number = Integer.parseInt(value);
      if (number >= 1) {
        return number;
      }
    } catch (NumberFormatException e) {
      // Told below, with the text as it came.
    }
    throw new IllegalArgumentException(option + " " + value + " is not a number of at least 1");
  }
}
