package dev.mooncake4j.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;

/** Moves blocks between the peers of a fleet and compares the bytes. One thread drives it. */
final class Transfers {
  private final Fleet fleet;
  private final RandomGenerator random;

  /** Moves between blocks that this draws. */
  Transfers(Fleet fleet, RandomGenerator random) {
    this.fleet = fleet;
    this.random = random;
  }

  /**
   * Moves the blocks of a shape once, from anywhere to anywhere.
   *
   * @param verify whether the bytes are compared afterwards, with the decoder's zeroed before
   * @throws IllegalStateException if a request fails or other bytes arrive
   */
  Measured move(Party party, Shape shape, boolean verify) throws InterruptedException {
    int[] source = shape.ids(fleet.blocks(), random);
    int[] destination = shape.ids(fleet.blocks(), random);
    RemotePeer from = fleet.from(party);
    RemotePeer to = fleet.to(party);
    if (verify) {
      to.zero(destination);
    }
    Measured measured =
        party.isEngine()
            ? write(party, source, destination)
            : pull(party, shape, source, destination);
    if (verify && !from.sha256(source).equals(to.sha256(destination))) {
      throw new IllegalStateException(
          party.title + ", " + shape + ": other bytes arrived than were sent");
    }
    return measured;
  }

  private Measured write(Party party, int[] source, int[] destination) throws InterruptedException {
    boolean spin = party == Party.ENGINE_SPINNING;
    double seconds = fleet.from(party).write(fleet.to(party), source, destination, spin);
    return Measured.of(List.of(seconds), seconds);
  }

  private Measured pull(Party party, Shape shape, int[] source, int[] destination)
      throws InterruptedException {
    RemotePeer from = fleet.from(party);
    Requests requests = fleet.requests(party, shape, source, destination);
    from.announce(requests);
    from.beginAwaitingSent(shape.requests());
    RemotePeer.Pulled pulled = fleet.to(party).pull(requests);
    RemotePeer.Sent sent = from.sent(shape.requests());
    List<Double> seconds = new ArrayList<>();
    long first = Long.MAX_VALUE;
    long last = Long.MIN_VALUE;
    for (int i = 0; i < shape.requests(); i++) {
      long started = pulled.started(i);
      long ended = pulled.ended(i);
      first = Math.min(first, started);
      last = Math.max(last, ended);
      seconds.add((ended - started) / 1e9);
    }
    return new Measured(seconds, (last - first) / 1e9, sent.allocated(), pulled.allocated());
  }
}
