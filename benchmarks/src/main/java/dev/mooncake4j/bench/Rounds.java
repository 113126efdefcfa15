package dev.mooncake4j.bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;

/**
 * Measures shapes: in each round every party once, in turn, and each round begins with another, so
 * that what the machine does besides is the same for all.
 */
final class Rounds {
  /** Requests of each party before the first measurement: servers run for longer than a bench. */
  private static final int WARM_UP = 5000;

  private static final long WARM_UP_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final Shape WARM_UP_SHAPE = new Shape(1, 1, false);

  /** Up to so many blocks the bytes of every round are compared, above it those of the first. */
  private static final int ALWAYS_VERIFIED = 64;

  private final Fleet fleet;
  private final Transfers transfers;
  private final int rounds;

  Rounds(Fleet fleet, int rounds, RandomGenerator random) {
    this.fleet = fleet;
    this.rounds = rounds;
    this.transfers = new Transfers(fleet, random);
  }

  void warmUp(List<Party> parties) throws InterruptedException {
    for (Party party : here(parties)) {
      Progress.show("warming up: " + party.title);
      long end = System.nanoTime() + WARM_UP_NANOS;
      for (int i = 0; i < WARM_UP && System.nanoTime() - end < 0; i++) {
        var _ = transfers.move(party, WARM_UP_SHAPE, false);
      }
    }
  }

  /** Measures shapes after one round of each that does not count and whose bytes are compared. */
  Results measure(List<Shape> shapes, List<Party> parties) throws InterruptedException {
    Results results = new Results((long) Fleet.LAYERS * Fleet.BLOCK_BYTES);
    List<Party> turns = here(parties);
    for (Shape shape : shapes) {
      for (int round = 0; round <= rounds; round++) {
        Progress.show(shape + ", round " + round + " of " + rounds);
        for (Party party : turns) {
          boolean verify = round == 0 || shape.totalBlocks() <= ALWAYS_VERIFIED;
          var measured = transfers.move(party, shape, verify);
          if (round > 0) {
            results.add(shape, party, measured);
          }
        }
        Collections.rotate(turns, -1);
      }
    }
    Progress.clear();
    return results;
  }

  private List<Party> here(List<Party> parties) {
    return new ArrayList<>(parties.stream().filter(fleet::has).toList());
  }
}
