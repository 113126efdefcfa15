package dev.mooncake4j.it.stress;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** What was done to whom and when: a request that it touches may fail. One thread. */
final class FaultLog {
  /**
   * After a fault is over: connections are made again, what was held up is worked off, and a cut is
   * given up by heartbeats only after 8 s.
   */
  private static final long GRACE_NANOS = TimeUnit.SECONDS.toNanos(12);

  private final List<Fault> faults = new ArrayList<>();

  /** One of them, to be ended. */
  static final class Fault {
    private final Peer peer;
    private final @Nullable Peer other;
    private final long from = System.nanoTime();
    private long until = Long.MAX_VALUE;

    private Fault(Peer peer, @Nullable Peer other) {
      this.peer = peer;
      this.other = other;
    }

    void over() {
      until = System.nanoTime();
    }

    private boolean touches(Request request, long now) {
      boolean isNear = peer == request.send.peer || peer == request.pull.peer;
      boolean isBetween =
          isNear && (other == null || other == request.send.peer || other == request.pull.peer);
      boolean isBefore = until != Long.MAX_VALUE && until + GRACE_NANOS - request.began < 0;
      return isBetween && !isBefore && from - now <= 0;
    }
  }

  /** Begins one at a peer. */
  Fault at(Peer peer) {
    return begin(new Fault(peer, null));
  }

  /** Begins one of a link. */
  Fault between(Peer a, Peer b) {
    return begin(new Fault(a, b));
  }

  private Fault begin(Fault fault) {
    faults.add(fault);
    return fault;
  }

  /** Whether any of them may have met this request. */
  boolean touches(Request request) {
    long now = System.nanoTime();
    return faults.stream().anyMatch(fault -> fault.touches(request, now));
  }
}
