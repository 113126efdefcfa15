package dev.mooncake4j.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Lets requests of a fleet go, at once or after their leases were held. One thread drives it. */
final class Releases {
  /** A connection of ours queues 4,096 messages, and drops what is more. */
  private static final int RELEASED_AT_ONCE = 1000;

  private final Fleet fleet;

  /** For the requests of this fleet. */
  Releases(Fleet fleet) {
    this.fleet = fleet;
  }

  /**
   * Lets requests go that were not fetched, all at once: a wire request without blocks for each.
   *
   * @return seconds of each from the decoder's step to the prefiller's result
   */
  Measured release(Party party, int count) throws InterruptedException {
    Requests requests = smallRequests(party, count);
    fleet.from(party).announce(requests);
    return released(party, requests);
  }

  private Measured released(Party party, Requests requests) throws InterruptedException {
    RemotePeer from = fleet.from(party);
    int count = requests.count();
    from.beginAwaitingSent(count);
    long[] started = fleet.to(party).release(requests);
    RemotePeer.Sent sent = from.sent(count);
    if (sent.expired() > 0) {
      throw new IllegalStateException(party.title + ": blocks of " + sent.expired() + " expired");
    }
    List<Double> seconds = new ArrayList<>();
    long last = started[0];
    for (int i = 0; i < count; i++) {
      long ended = sent.ended(requests.prefillId(i));
      last = Math.max(last, ended);
      seconds.add((ended - started[i]) / 1e9);
    }
    return Measured.of(seconds, (last - started[0]) / 1e9);
  }

  /**
   * What holding leases took.
   *
   * @param processorSeconds of both processes
   * @param renewals leases that the prefiller has renewed
   */
  record Held(double processorSeconds, long renewals) {}

  /**
   * Keeps leases alive for a while: prefills are done, the decoder has the requests in its queue
   * and renews. Afterwards they are let go, and none may have expired.
   *
   * @param settle before the measurement
   * @param hold the time that is measured
   * @return what it took
   */
  Held holdLeases(int count, Duration settle, Duration hold) throws InterruptedException {
    RemotePeer from = fleet.from(Party.OURS);
    RemotePeer to = fleet.to(Party.OURS);
    Requests requests = smallRequests(Party.OURS, count);
    from.announce(requests);
    to.arrive(requests);
    Thread.sleep(settle);
    long renewals = from.renewals();
    double before = from.processorSeconds() + to.processorSeconds();
    Thread.sleep(hold);
    double took = from.processorSeconds() + to.processorSeconds() - before;
    renewals = from.renewals() - renewals;
    for (int i = 0; i < count; i += RELEASED_AT_ONCE) {
      var _ = released(Party.OURS, requests.part(i, Math.min(count, i + RELEASED_AT_ONCE)));
    }
    return new Held(took, renewals);
  }

  /** Requests of one block each, which many of them share. */
  private Requests smallRequests(Party party, int count) {
    int[] ids = new int[count];
    for (int i = 0; i < count; i++) {
      ids[i] = i % fleet.blocks();
    }
    return fleet.requests(party, new Shape(count, 1, false), ids, ids);
  }
}
