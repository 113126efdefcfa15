package dev.mooncake4j.bench;

import dev.mooncake4j.bench.Figure.Rule;
import dev.mooncake4j.bench.measure.Samples;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * Sending while the prefill goes on, beside sending after it: a prefill of some chunks that takes
 * as long as its transfer, for which the decoder waits already.
 */
final class EarlySending {
  private static final int CHUNKS = 8;
  private static final Shape SHAPE = new Shape(1, 256, false);

  /** Blocks that a fleet for it needs. */
  static final int BLOCKS = SHAPE.totalBlocks();

  /** Options of peers that send early. */
  static final List<String> OPTIONS = List.of("--send-while-prefill", "true");

  /**
   * What was measured, in seconds.
   *
   * @param transfer of the same blocks with the prefill done
   * @param after from the prefill's end to completion, where nothing is sent before
   * @param during the same where what is finished is sent
   */
  record Measured(List<Double> transfer, List<Double> after, List<Double> during) {}

  private EarlySending() {}

  static Measured measure(Fleet fleet, int rounds, RandomGenerator random)
      throws InterruptedException {
    Transfers transfers = new Transfers(fleet, random);
    List<Double> transfer = new ArrayList<>();
    List<Double> after = new ArrayList<>();
    List<Double> during = new ArrayList<>();
    for (int round = 0; round <= rounds; round++) {
      Progress.show("sending while the prefill goes on, round " + round + " of " + rounds);
      double alone = transfers.move(Party.OURS, SHAPE, true).total();
      transfer.add(alone);
      // Of this round: some machines change their speed from one to the next.
      Duration pause = Duration.ofNanos((long) (alone * 1e9 / CHUNKS));
      boolean lateFirst = round % 2 == 0;
      double one = prefillAndFetch(fleet, pause, !lateFirst, random);
      double other = prefillAndFetch(fleet, pause, lateFirst, random);
      double late = lateFirst ? one : other;
      double early = lateFirst ? other : one;
      if (round == 0) {
        transfer.clear();
      } else {
        after.add(late);
        during.add(early);
      }
    }
    Progress.clear();
    return new Measured(transfer, after, during);
  }

  /**
   * Fetches blocks of a prefill that begins when the decoder waits for it already.
   *
   * @param pause of each of the prefill's chunks
   * @param tell whether the prefiller tells what is finished after each
   * @return seconds from the prefill's end to the decoder's completion
   */
  private static double prefillAndFetch(
      Fleet fleet, Duration pause, boolean tell, RandomGenerator random)
      throws InterruptedException {
    int[] source = SHAPE.ids(fleet.blocks(), random);
    int[] destination = SHAPE.ids(fleet.blocks(), random);
    RemotePeer from = fleet.from(Party.OURS);
    RemotePeer to = fleet.to(Party.OURS);
    to.zero(destination);
    Requests requests = fleet.requests(Party.OURS, SHAPE, source, destination);
    to.beginPull(requests);
    long prefilled = from.prefill(requests, CHUNKS, pause, tell);
    RemotePeer.Pulled pulled = to.pulled();
    from.beginAwaitingSent(1);
    var _ = from.sent(1);
    if (!from.sha256(source).equals(to.sha256(destination))) {
      throw new IllegalStateException(SHAPE + ": other bytes arrived than were sent");
    }
    return (pulled.ended(0) - prefilled) / 1e9;
  }

  static Figure target(Measured measured) {
    return Figure.of(
        "sending while the prefill goes on: from the prefill's end to completion",
        Samples.of(measured.during()).median() * 1e3,
        Samples.of(measured.after()).median() * 1e3,
        "ms",
        Rule.RATIO_AT_MOST,
        0.25,
        "<= 0.25 of sending after it");
  }

  static TextTable table(Measured measured) {
    TextTable table = new TextTable("a prefill of " + CHUNKS + " chunks, " + SHAPE, "p50 ms");
    table.add(
        List.of(
            "the transfer alone", Tables.milliseconds(Samples.of(measured.transfer()).median())));
    table.add(
        List.of(
            "from the prefill's end to completion, sent after it",
            Tables.milliseconds(Samples.of(measured.after()).median())));
    table.add(
        List.of(
            "the same, sent while it goes on",
            Tables.milliseconds(Samples.of(measured.during()).median())));
    return table;
  }
}
