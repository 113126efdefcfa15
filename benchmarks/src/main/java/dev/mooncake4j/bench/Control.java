package dev.mooncake4j.bench;

import dev.mooncake4j.bench.Figure.Rule;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The control plane: pulls that move no bytes, and leases that are renewed. */
final class Control {
  /** Pulls of one round, all at once. */
  private static final int PULLS = 300;

  /** Rounds that do not count, for the just-in-time compiler. */
  private static final int WARM_UP = 5;

  private static final int LEASES = 10_000;

  /** Renewed every sixth of it. */
  private static final int LEASE_SECONDS = 30;

  /** Until every lease was renewed some times and what that runs through is compiled. */
  private static final Duration SETTLE = Duration.ofSeconds(75);

  /** With the time before, longer than a lease lasts without renewals. */
  private static final Duration HOLD = Duration.ofSeconds(30);

  /**
   * What the leases cost.
   *
   * @param leases how many are alive
   * @param renewalsPerSecond that the prefiller has made
   * @param percent of one core, prefiller and decoder together
   */
  record Leases(int leases, double renewalsPerSecond, double percent) {}

  private Control() {}

  static Results releases(Fleet fleet, int rounds) throws InterruptedException {
    Releases releases = new Releases(fleet);
    Results results = new Results(0);
    Shape shape = new Shape(PULLS, 1, false);
    for (int round = 1 - WARM_UP; round <= rounds; round++) {
      Progress.show("release-only pulls, round " + Math.max(0, round) + " of " + rounds);
      for (Party party : List.of(Party.OURS, Party.VLLM)) {
        if (fleet.has(party)) {
          var measured = releases.release(party, PULLS);
          if (round > 0) {
            results.add(shape, party, measured);
          }
        }
      }
    }
    Progress.clear();
    return results;
  }

  /** Options of peers whose leases are to be measured. */
  static List<String> leaseOptions() {
    return List.of("--kv-lease-duration", String.valueOf(LEASE_SECONDS));
  }

  static Leases leases(Fleet fleet) throws InterruptedException {
    Progress.show(LEASES + " leases for " + HOLD.plus(SETTLE).toSeconds() + " s");
    Releases.Held held = new Releases(fleet).holdLeases(LEASES, SETTLE, HOLD);
    Progress.clear();
    double seconds = HOLD.toMillis() / 1e3;
    return new Leases(LEASES, held.renewals() / seconds, held.processorSeconds() / seconds * 100);
  }

  static List<Figure> targets(Results releases, @Nullable Leases leases) {
    Shape shape = new Shape(PULLS, 1, false);
    return List.of(
        Figure.of(
            "control plane: release-only pulls per second",
            Targets.perSecond(PULLS, releases.total(shape, Party.OURS)),
            Targets.perSecond(PULLS, releases.total(shape, Party.VLLM)),
            "1/s",
            Rule.RATIO_AT_LEAST,
            10,
            ">= 10 x vLLM's"),
        Figure.of(
            "control plane: 10000 leases of 30 s, both processes",
            leases == null ? null : (Double) leases.percent(),
            null,
            "% of a core",
            Rule.BELOW,
            5,
            "< 5"));
  }

  static TextTable table(Results releases, Leases leases) {
    TextTable table =
        new TextTable("control plane", "per second", "p50 ms", "p99 ms", "% of a core");
    Shape shape = new Shape(PULLS, 1, false);
    for (Party party : releases.parties()) {
      table.add(
          List.of(
              "release-only pulls, " + PULLS + " at once, " + party.title,
              TextTable.number(Targets.perSecond(PULLS, releases.total(shape, party))),
              Tables.milliseconds(releases.latency(shape, party, 50)),
              Tables.milliseconds(releases.latency(shape, party, 99)),
              "-"));
    }
    table.add(
        List.of(
            "renewals of " + leases.leases() + " leases",
            TextTable.number(leases.renewalsPerSecond()),
            "-",
            "-",
            TextTable.number(leases.percent())));
    return table;
  }

  static Map<String, Object> raw(Results releases, Leases leases) {
    return Map.of("releases", releases.raw(), "leases", leases);
  }
}
