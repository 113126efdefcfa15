package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.core.producer.TransferJob.Outcome;
import dev.mooncake4j.core.trace.Stage;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Transfers that wait for an engine thread, shared out so that one slow or dead decoder does not
 * take the threads of all. Thread-safe.
 *
 * <ul>
 *   <li>Decoders take turns.
 *   <li>Where there are several, each has at most twice as many threads as would be left free: one
 *       that hangs has 6 of 10, two have 4 each, and some thread is there for the others.
 *   <li>A breaker for each decoder: after some failed writes in a row its transfers are refused at
 *       once, but for one from time to time that tries again, with what follows it of the same
 *       request; a success or a new layout ends it.
 * </ul>
 */
final class TransferQueue {
  /** Failed writes in a row after which a decoder's transfers are refused. */
  static final int FAILURES = 3;

  private static final long FIRST_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long MOST_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(30);

  /** A decoder that asks for nothing for so long is forgotten. */
  private static final long REMEMBERED_NANOS = TimeUnit.SECONDS.toNanos(60);

  private static final Refused NONE = new Refused(List.of(), "");
  private static final Peer NOBODY = new Peer("");

  private final NanoClock clock;
  private final int threads;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();

  /** By session, the one that has asked least recently first. */
  private final Map<String, Peer> peers = new LinkedHashMap<>(16, 0.75f, true);

  /** Those with transfers that wait, in their turn. */
  private final Deque<Peer> turns = new ArrayDeque<>();

  private int running;
  private int waiting;
  private boolean closed;

  /** One transfer and who is to be told of its end; equal to none but itself. */
  static final class Work {
    final TransferJob job;
    final Consumer<Outcome> done;
    private final @Nullable JobStages queued;
    private Peer peer = NOBODY;

    Work(TransferJob job, Consumer<Outcome> done) {
      this.job = job;
      this.done = done;
      this.queued = JobStages.start(Stage.QUEUE, job);
    }

    /** It waits no more, taken or refused. */
    void waited(String outcome, @Nullable String reason) {
      JobStages.finish(queued, outcome, reason);
    }
  }

  /** Transfers that waited behind one that failed, and why they are refused. */
  record Refused(List<Work> transfers, String reason) {}

  private static final class Peer {
    final String session;
    final Deque<Work> queued = new ArrayDeque<>();
    int running;
    long layoutId;
    long lastAsked;
    int failures;
    String lastFailure = "";
    long pause = FIRST_PAUSE_NANOS;
    long againAt;
    @Nullable Work probe;

    Peer(String session) {
      this.session = session;
    }

    boolean isBroken() {
      return failures >= FAILURES;
    }

    void mend() {
      failures = 0;
      pause = FIRST_PAUSE_NANOS;
      probe = null;
    }
  }

  TransferQueue(NanoClock clock, int threads) {
    this.clock = clock;
    this.threads = threads;
  }

  /** Queues a transfer; returns why it is refused, or {@code null}. */
  @Nullable String add(Work work) {
    lock.lock();
    try {
      if (closed) {
        return "the connector is closing";
      }
      long now = clock.nanoTime();
      forgetOld(now);
      TransferJob job = work.job;
      Peer peer = peers.computeIfAbsent(job.session(), Peer::new);
      peer.lastAsked = now;
      work.peer = peer;
      if (job.layoutId() != 0 && job.layoutId() != peer.layoutId) {
        peer.layoutId = job.layoutId();
        peer.mend();
      }
      if (peer.isBroken()) {
        Work probe = peer.probe;
        if (probe == null && now - peer.againAt >= 0) {
          peer.probe = work;
        } else if (probe == null || !isOfTheSameRequest(probe.job, job)) {
          return refusal(peer);
        }
      }
      if (peer.queued.isEmpty()) {
        turns.add(peer);
      }
      peer.queued.add(work);
      waiting++;
      // One thread, not all: it wakes the next one if it leaves something behind.
      changed.signal();
      return null;
    } finally {
      lock.unlock();
    }
  }

  /** Whether both are pieces of one request, written while its prefill goes on. */
  private static boolean isOfTheSameRequest(TransferJob one, TransferJob other) {
    return one.asker().equals(other.asker())
        && one.parts().size() == 1
        && other.parts().size() == 1
        && one.parts().getFirst().names().equals(other.parts().getFirst().names());
  }

  private void forgetOld(long now) {
    Iterator<Peer> oldest = peers.values().iterator();
    while (oldest.hasNext()) {
      Peer peer = oldest.next();
      if (now - peer.lastAsked < REMEMBERED_NANOS) {
        return;
      }
      if (peer.running == 0 && peer.queued.isEmpty()) {
        oldest.remove();
      }
    }
  }

  private static String refusal(Peer peer) {
    return "transfer engine: peer="
        + peer.session
        + " is left alone for a while, failed_writes="
        + peer.failures
        + ", the last: "
        + peer.lastFailure;
  }

  /** The next transfer, once there is one whose turn it is; {@code null} when closed and empty. */
  @Nullable Work take() throws InterruptedException {
    lock.lock();
    try {
      while (true) {
        for (int left = turns.size(); left > 0; left--) {
          Peer peer = turns.remove();
          if (!mayRun(peer)) {
            turns.add(peer);
            continue;
          }
          Work work = peer.queued.remove();
          waiting--;
          if (!peer.queued.isEmpty()) {
            turns.add(peer);
          }
          peer.running++;
          running++;
          if (!turns.isEmpty()) {
            changed.signal();
          }
          return work;
        }
        if (closed && turns.isEmpty()) {
          return null;
        }
        changed.await();
      }
    } finally {
      lock.unlock();
    }
  }

  private boolean mayRun(Peer peer) {
    int leftFree = threads - running - 1;
    return closed || peer.running == 0 || peers.size() == 1 || peer.running < 2 * leftFree;
  }

  /**
   * A transfer has left its thread.
   *
   * @param written whether anything was written or tried
   * @param failure how the engine failed, or {@code null}
   * @return those that waited behind it and are refused now
   */
  Refused done(Work work, boolean written, @Nullable String failure) {
    lock.lock();
    try {
      running--;
      Peer peer = work.peer;
      peer.running--;
      boolean wasProbe = work.equals(peer.probe);
      if (wasProbe) {
        peer.probe = null;
      }
      // What waited for this one's place may be another thread's: this one may not come back.
      changed.signal();
      if (failure == null) {
        if (written) {
          peer.mend();
        }
        return NONE;
      }
      boolean wasBroken = peer.isBroken();
      peer.lastFailure = failure;
      peer.failures++;
      if (!peer.isBroken()) {
        return NONE;
      }
      if (wasProbe) {
        peer.pause = Math.min(2 * peer.pause, MOST_PAUSE_NANOS);
      }
      if (wasProbe || !wasBroken) {
        peer.againAt = clock.nanoTime() + peer.pause;
      }
      List<Work> refused = new ArrayList<>(peer.queued);
      if (peer.probe != null) {
        refused.remove(peer.probe);
      }
      peer.queued.removeAll(refused);
      waiting -= refused.size();
      if (peer.queued.isEmpty()) {
        turns.remove(peer);
      }
      return new Refused(refused, refusal(peer));
    } finally {
      lock.unlock();
    }
  }

  /** Transfers that wait for a thread. */
  int waiting() {
    lock.lock();
    try {
      return waiting;
    } finally {
      lock.unlock();
    }
  }

  /** Nothing more is taken in; what waits can still be taken out. */
  void close() {
    lock.lock();
    try {
      closed = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }
}
