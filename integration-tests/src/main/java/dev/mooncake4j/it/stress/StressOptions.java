package dev.mooncake4j.it.stress;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * The command line.
 *
 * @param load how long requests are made, after the warm-up
 * @param seed of all that is drawn
 * @param prefillers how many
 * @param decoders how many
 * @param rate requests made in a second, at most
 * @param namespaces whether each peer gets a network namespace of its own; needs root in namespaces
 *     for networks and mounts that belong to this process
 * @param faults whether peers are stopped and links cut besides the killing
 */
public record StressOptions(
    Duration load,
    long seed,
    int prefillers,
    int decoders,
    int rate,
    boolean namespaces,
    boolean faults) {

  static final String USAGE =
      """
      usage: ./stress.sh [--minutes N] [--seed S] [--rate R] [--prefillers P] [--decoders D]

      Starts prefillers and decoders as processes of their own and sends them requests of all kinds
      while every minute one process is killed and restarted, one stopped for 5 s, and one link cut.
      Every byte of every request that is reported as received is looked at. Ends with a table and
      "stress: ok, ..." or "stress: FAILED ...", and the exit code says the same.

        --minutes N     how long, fractions too (10)
        --seed S        the same draws of requests and faults again (printed; random)
        --rate R        requests in a second at most (150)
        --prefillers P  how many (4)
        --decoders D    how many (4)

      See docs/reliability.md on how to read what it prints.
      """;

  /** The usual run. */
  public static StressOptions usual(long seed) {
    return new StressOptions(Duration.ofMinutes(10), seed, 4, 4, 150, false, true);
  }

  /**
   * Reads {@code --name value} pairs.
   *
   * @throws IllegalArgumentException with every problem in one message
   */
  public static StressOptions parse(String... args) {
    StressOptions o = usual(System.nanoTime() & 0xFFFF_FFFFL);
    List<String> problems = new ArrayList<>();
    for (int i = 0; i < args.length; i += 2) {
      if (i + 1 == args.length) {
        problems.add(args[i] + " has no value or is not known");
        break;
      }
      try {
        o = o.with(args[i], args[i + 1]);
      } catch (IllegalArgumentException e) {
        problems.add(args[i] + " " + args[i + 1] + ": " + e.getMessage());
      }
    }
    if (!problems.isEmpty()) {
      throw new IllegalArgumentException(String.join("; ", problems));
    }
    return o;
  }

  private StressOptions with(String name, String value) {
    return switch (name) {
      case "--minutes" -> withLoad(Duration.ofMillis(Math.round(minutes(value) * 60_000)));
      case "--seed" ->
          new StressOptions(
              load, Long.parseLong(value), prefillers, decoders, rate, namespaces, faults);
      case "--rate" ->
          new StressOptions(load, seed, prefillers, decoders, positive(value), namespaces, faults);
      case "--prefillers" ->
          new StressOptions(load, seed, positive(value), decoders, rate, namespaces, faults);
      case "--decoders" ->
          new StressOptions(load, seed, prefillers, positive(value), rate, namespaces, faults);
      case "--links" ->
          new StressOptions(
              load, seed, prefillers, decoders, rate, value.equals("namespaces"), faults);
      default -> throw new IllegalArgumentException("not known, --help lists the options");
    };
  }

  /** The same for another time. */
  StressOptions withLoad(Duration time) {
    return new StressOptions(time, seed, prefillers, decoders, rate, namespaces, faults);
  }

  /** The same with fewer peers, and kills as the only faults. */
  StressOptions killsOnly(int prefillCount, int decodeCount) {
    return new StressOptions(load, seed, prefillCount, decodeCount, rate, false, false);
  }

  private static double minutes(String value) {
    double minutes = Double.parseDouble(value);
    if (!(minutes >= 0.1 && minutes <= 1440)) {
      throw new IllegalArgumentException("not between 0.1 and 1440");
    }
    return minutes;
  }

  static int positive(String value) {
    int n = Integer.parseInt(value);
    if (n < 1 || n > 100_000) {
      throw new IllegalArgumentException("not between 1 and 100000");
    }
    return n;
  }
}
