package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.Outcome;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/** What became of all requests, in numbers; the first of what should not have been, in words. */
final class Tally {
  private static final int SHOWN = 20;

  private final FaultLog faults;
  private final List<String> problems = new ArrayList<>();
  private final Map<String, Long> failedByStage = new TreeMap<>();
  private final Map<Outcome, Long> prefillers = new TreeMap<>();
  private long[] latencies = new long[1 << 14];
  private int latencyCount;
  long requests;
  long done;
  long letGo;
  long failedByKind;
  long failedByFault;
  long unexpected;
  long lost;
  long bytes;
  long wrongBytes;
  long unquiet;
  long hung;
  long longestNanos;
  long longestByFaultNanos;

  Tally(FaultLog faults) {
    this.faults = faults;
  }

  /** A decoder has told how a request ended. */
  void pulled(Request request, Ended how) {
    long took = System.nanoTime() - request.pull.since;
    longestNanos = Math.max(longestNanos, took);
    bytes += how.bytes();
    wrongBytes += how.wrong();
    if (how.wrong() > 0) {
      problem(request + " wrong_bytes=" + how.wrong() + " of " + how.bytes());
    }
    boolean fits = request.kind.fitsDecoder(how.outcome(), how.stage());
    boolean excused = !fits && how.outcome() != Outcome.REFUSED && faults.touches(request);
    switch (how.outcome()) {
      case DONE -> {
        done++;
        // Where it should have failed, no fault explains why it did not.
        excused &= request.kind != Kind.PREFILL_ABORTED && request.kind != Kind.TOO_MUCH;
        if (request.kind == Kind.PLAIN && !faults.touches(request)) {
          latency(took);
        }
      }
      case FAILED -> {
        failedByStage.merge(how.stage(), 1L, Long::sum);
        unquiet += how.quiet() ? 0 : 1;
        if (fits) {
          failedByKind++;
        } else if (excused) {
          failedByFault++;
          longestByFaultNanos = Math.max(longestByFaultNanos, took);
        }
      }
      default -> letGo++;
    }
    if (!fits && !excused) {
      unexpected++;
      problem(
          request
              + " ended on the decoder as "
              + how.outcome()
              + " "
              + how.stage()
              + " after "
              + TimeUnit.NANOSECONDS.toMillis(took)
              + " ms: "
              + how.reason());
    }
  }

  /** A prefiller has told how a request ended. */
  void sent(Request request, Ended how) {
    prefillers.merge(how.outcome(), 1L, Long::sum);
    longestNanos = Math.max(longestNanos, System.nanoTime() - request.send.since);
    if (!request.kind.fitsPrefiller(how.outcome()) && !faults.touches(request)) {
      unexpected++;
      problem(
          request
              + " ended on the prefiller as "
              + how.outcome()
              + ", on the decoder as "
              + request.pull.outcome);
    }
  }

  /** Half of a request has not ended in its time. */
  void hung(Request request, Request.Half half) {
    hung++;
    problem(request + " hangs at " + half.peer.name + ", outcome so far " + half.outcome);
  }

  /** Something that must not be. */
  void problem(String text) {
    if (problems.size() < SHOWN) {
      problems.add(text);
      System.out.println("stress: PROBLEM " + text);
    }
  }

  boolean isClean() {
    return problems.isEmpty();
  }

  long failed() {
    return failedByStage.values().stream().mapToLong(Long::longValue).sum();
  }

  private void latency(long nanos) {
    if (latencyCount == latencies.length) {
      latencies = Arrays.copyOf(latencies, 2 * latencyCount);
    }
    latencies[latencyCount++] = nanos;
  }

  /** Rows of the table. */
  void print(Table table) {
    table.row("requests ended", requests);
    table.row("  received, each byte looked at", done);
    table.row("  released by the decoder without a fetch", letGo);
    table.row("  failed, as their kind must", failedByKind);
    table.row("  failed, near a fault", failedByFault);
    table.row("  lost with a killed process", lost);
    failedByStage.forEach((stage, n) -> table.row("failed at stage " + stage, n));
    table.row("failed before their blocks were quiet", unquiet);
    prefillers.forEach((outcome, n) -> table.row("prefiller: " + outcome, n));
    table.row("bytes looked at", bytes);
    long[] sorted = Arrays.copyOf(latencies, latencyCount);
    Arrays.sort(sorted);
    table.row("median of a fetch away from faults, ms", millis(sorted, 0.5));
    table.row("99th percentile, ms", millis(sorted, 0.99));
    table.row("longest until a failure near a fault, ms", toMillis(longestByFaultNanos));
    table.row("longest until an end, any request, ms", toMillis(longestNanos));
    table.mustBeZero("wrong bytes", wrongBytes);
    table.mustBeZero("hung", hung);
    table.mustBeZero("ended as they should not", unexpected);
  }

  private static long millis(long[] sorted, double part) {
    return sorted.length == 0 ? 0 : toMillis(sorted[(int) (part * (sorted.length - 1))]);
  }

  private static long toMillis(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(nanos);
  }
}
