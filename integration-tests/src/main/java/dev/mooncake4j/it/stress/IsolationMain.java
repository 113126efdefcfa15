package dev.mooncake4j.it.stress;

import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What one bad decoder does to the others' latencies: see {@code --help}. Exit codes: 0 if they are
 * within bounds, 1 if not, 2 for bad options.
 */
public final class IsolationMain {
  static final String USAGE =
      """
      usage: ./stress.sh --isolation [--rounds N] [--pulls N] [--only KIND] [--bound-millis N]

      One prefiller and one good decoder, which fetches small requests one after another, and beside
      it a bad one: stopped while it is written to; behind a link that is cut; or flooding the
      prefiller with pulls of transfers that nobody knows. Rounds with and without the bad one take
      turns. Ends with "isolation: ok, ..." or "isolation: FAILED ..."; it fails if a good request
      fails, or if the 99th percentile (the median of the rounds') is more than twice as long with
      the bad one there.

        --rounds N        of each sort (5)
        --pulls N         good requests of a round (200)
        --only KIND       stopped, black-hole or flooder (all that can be made here)
        --bound-millis N  instead of the factor of two: no 99th percentile above this
      """;

  private IsolationMain() {}

  /** What is wrong with the bad decoder. */
  enum Bad {
    STOPPED,
    BLACK_HOLE,
    FLOODER;

    String text() {
      return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
  }

  /**
   * The command line.
   *
   * @param rounds of each sort
   * @param pulls good requests of a round
   * @param kinds of bad decoders
   * @param bound for the 99th percentile, instead of the factor
   * @param namespaces whether links can be cut
   */
  record Options(
      int rounds, int pulls, Set<Bad> kinds, @Nullable Duration bound, boolean namespaces) {}

  static Options parse(String... args) {
    int rounds = 5;
    int pulls = 200;
    Set<Bad> kinds = EnumSet.allOf(Bad.class);
    Duration bound = null;
    boolean namespaces = false;
    List<String> problems = new ArrayList<>();
    for (int i = 0; i < args.length; i += 2) {
      String value = i + 1 < args.length ? args[i + 1] : "";
      try {
        switch (args[i]) {
          case "--rounds" -> rounds = StressOptions.positive(value);
          case "--pulls" -> pulls = StressOptions.positive(value);
          case "--only" ->
              kinds = EnumSet.of(Bad.valueOf(value.toUpperCase(Locale.ROOT).replace('-', '_')));
          case "--bound-millis" -> bound = Duration.ofMillis(StressOptions.positive(value));
          case "--links" -> namespaces = value.equals("namespaces");
          default -> problems.add(args[i] + " is not known, --help lists the options");
        }
      } catch (IllegalArgumentException e) {
        problems.add(args[i] + " " + value + ": " + e.getMessage());
      }
    }
    if (!problems.isEmpty()) {
      throw new IllegalArgumentException(String.join("; ", problems));
    }
    return new Options(rounds, pulls, kinds, bound, namespaces);
  }

  /** Runs once. */
  public static void main(String[] args) throws InterruptedException {
    if (args.length > 0 && (args[0].equals("--help") || args[0].equals("-h"))) {
      System.out.print(USAGE);
      return;
    }
    Options options;
    try {
      options = parse(args);
    } catch (IllegalArgumentException e) {
      System.err.println("isolation: " + e.getMessage());
      System.err.print(USAGE);
      System.exit(2);
      return;
    }
    IsolationRun run = IsolationRun.of(options);
    Runtime.getRuntime().addShutdownHook(new Thread(run::close, "close-peers"));
    System.exit(run.run() ? 0 : 1);
  }
}
