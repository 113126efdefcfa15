package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Command;
import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.Outcome;
import dev.mooncake4j.it.stress.Messages.PullJob;
import dev.mooncake4j.it.stress.Messages.Ready;
import dev.mooncake4j.it.stress.Messages.SendJob;
import dev.mooncake4j.it.stress.Messages.ToPeer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * Makes requests, gives each of the two peers its half, and knows of each half until it has ended.
 * Owned by the driver's loop.
 */
final class Router {
  /** Of the usual kinds, under way at one peer; what more comes has to wait. */
  private static final int OPEN_AT_ONE = 24;

  /** Made at once at most, after a pause. */
  private static final double BURST = 30;

  /**
   * The longest that a half may take: a decoder gives a silent prefiller its abort timeout and a
   * minute, and the machine may be busy.
   */
  private static final Duration LIMIT = Fleet.ABORT_TIMEOUT.plusSeconds(80);

  private final StressOptions options;
  private final Random random;
  private final Fleet fleet;
  private final Timers timers;
  private final Tally tally;
  private final Map<Long, Request> open = new LinkedHashMap<>();
  private final Map<Child, Batch> batches = new HashMap<>();
  private long next;
  private double allowance;
  private long allowedAt = System.nanoTime();

  private record Batch(List<SendJob> sends, List<PullJob> pulls) {}

  Router(StressOptions options, Fleet fleet, Timers timers, Tally tally) {
    this.options = options;
    this.random = new Random(options.seed());
    this.fleet = fleet;
    this.timers = timers;
    this.tally = tally;
  }

  /** Makes the requests that are due, as far as peers take them. */
  void make() {
    long now = System.nanoTime();
    allowance = Math.min(BURST, allowance + (now - allowedAt) / 1e9 * options.rate());
    allowedAt = now;
    for (; allowance >= 1; allowance--) {
      Peer prefiller = draw(fleet.prefillers);
      Peer decoder = draw(fleet.decoders);
      if (prefiller.routed
          && decoder.routed
          && prefiller.open < OPEN_AT_ONE
          && decoder.open < OPEN_AT_ONE) {
        make(prefiller, decoder);
      }
    }
  }

  private Peer draw(List<Peer> peers) {
    return peers.get(random.nextInt(peers.size()));
  }

  private void make(Peer prefiller, Peer decoder) {
    Request request = new Request(next++, Kind.draw(random), prefiller, decoder);
    open.put(request.n, request);
    if (!request.kind.isSlow()) {
      prefiller.open++;
      decoder.open++;
    }
    Jobs jobs = Jobs.draw(request, options.seed(), ready(prefiller), random);
    if (request.kind == Kind.UNSENT) {
      over(request, request.send);
    } else {
      timers.after(jobs.sendAfterMillis(), () -> give(request, request.send, jobs));
    }
    if (request.kind == Kind.UNFETCHED) {
      over(request, request.pull);
    } else {
      timers.after(jobs.pullAfterMillis(), () -> give(request, request.pull, jobs));
    }
  }

  private static Ready ready(Peer peer) {
    Ready ready = peer.ready;
    if (ready == null) {
      throw new IllegalStateException(peer.name + " is routed to before it is ready");
    }
    return ready;
  }

  private void give(Request request, Request.Half half, Jobs jobs) {
    Child child = half.child;
    half.since = System.nanoTime();
    if (child == null || child.isGone()) {
      lost(request, half);
      return;
    }
    Batch batch =
        batches.computeIfAbsent(child, c -> new Batch(new ArrayList<>(), new ArrayList<>()));
    if (half == request.send) {
      batch.sends.add(jobs.send());
    } else {
      batch.pulls.add(jobs.pull());
    }
  }

  /** Sends what has been given since the last time. */
  void flush() {
    batches.forEach(
        (child, batch) ->
            child.tell(
                new ToPeer(Command.JOBS, List.copyOf(batch.sends), List.copyOf(batch.pulls))));
    batches.clear();
  }

  void ended(Child child, Ended how) {
    Request request = open.get(how.n());
    if (request == null) {
      tally.problem(child + " tells of request=" + how.n() + ", which is over: " + how);
      return;
    }
    Request.Half half = request.half(child);
    boolean isFirst = half.outcome == null;
    if (half.over || isFirst == (how.outcome() == Outcome.QUIETED)) {
      tally.problem(request + " is told of twice by " + child + ": " + how);
      return;
    }
    if (isFirst) {
      half.outcome = how.outcome();
      if (half == request.send) {
        tally.sent(request, how);
      } else {
        tally.pulled(request, how);
      }
    }
    if (how.quiet()) {
      over(request, half);
    }
  }

  /** A process is gone, and with it all halves that it had. */
  void gone(Child child) {
    for (Request request : List.copyOf(open.values())) {
      for (Request.Half half : List.of(request.send, request.pull)) {
        if (half.child == child && !half.over && half.since != 0) {
          lost(request, half);
        }
      }
    }
  }

  private void lost(Request request, Request.Half half) {
    if (half == request.pull && half.outcome == null) {
      tally.lost++;
    }
    over(request, half);
  }

  private void over(Request request, Request.Half half) {
    half.over = true;
    if (!request.kind.isSlow()) {
      half.peer.open--;
    }
    if (request.isOver()) {
      open.remove(request.n);
      tally.requests++;
    }
  }

  /** Looks for halves that should have ended by now. */
  void findHung() {
    long now = System.nanoTime();
    for (Request request : List.copyOf(open.values())) {
      for (Request.Half half : List.of(request.send, request.pull)) {
        if (!half.over && half.since != 0 && now - half.since > LIMIT.toNanos()) {
          tally.hung(request, half);
          over(request, half);
        }
      }
    }
  }

  int open() {
    return open.size();
  }
}
