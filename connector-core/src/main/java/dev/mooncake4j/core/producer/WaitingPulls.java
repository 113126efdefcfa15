package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.trace.RequestStage;
import dev.mooncake4j.core.trace.Stage;
import dev.mooncake4j.core.wire.PullEntry;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Requests of decoders that wait for their prefill, or for a transfer nobody has heard of: found by
 * transfer, and by the connection that the answer goes to. Owned by the worker loop.
 *
 * <p>Bounded, so that one that asks without end leaves room for the others: each decoder rank by a
 * number of its own, and each host by what is free, since a host may run many ranks and claim even
 * more. <b>A host may have as many waiting as there are places left.</b> So one alone gets half of
 * all, two that want all get a third each, and however many there are, as much as each of them has
 * is left for a host that has fewer. No share has to be set, and none is kept for hosts that are
 * not there. The host is where the connection comes from, and not the name that a pull gives.
 */
final class WaitingPulls {
  /** Never more than these wait in all. */
  static final int MAX = 65_536;

  /** The same for one decoder rank, named by its session. */
  static final int MAX_PER_SESSION = 16_384;

  private final Map<String, Set<Waiting>> byTransfer = new HashMap<>();
  private final Map<PeerIdentity, Set<Waiting>> byPeer = new HashMap<>();
  private final Map<String, Integer> bySession = new HashMap<>();
  private final Map<String, Integer> byHost = new HashMap<>();
  private int size;

  /** One request; equal to none but itself. */
  static final class Waiting {
    final ServedPull pull;
    final PullEntry entry;

    /** When it came, on the loop's clock. */
    final long since;

    /** What was written for it while it waits; {@code null} where nothing was. */
    @Nullable StreamedPull streamed;

    private final @Nullable RequestStage event;

    private @Nullable Deadline deadline;

    Waiting(ServedPull pull, PullEntry entry, long since) {
      this.pull = pull;
      this.entry = entry;
      this.since = since;
      this.event =
          RequestStage.isOn()
              ? RequestStage.start(
                  Stage.WAIT,
                  new RequestNames(entry.requestId(), entry.transferId(), null),
                  pull.session,
                  entry.blocks().totalSize())
              : null;
    }

    /**
     * It has waited long enough, whatever came of it.
     *
     * @param send what it has waited for, where that is known
     * @param reason why nothing will come, or {@code null}
     */
    void waited(String outcome, @Nullable SendRecord send, @Nullable String reason) {
      if (event != null && send != null) {
        event.names(send.names);
      }
      RequestStage.finish(event, outcome, null, reason);
    }
  }

  /**
   * Which bound lets no further one of this decoder wait, or {@code null} if none does.
   *
   * @param host where its connection comes from
   * @param session what it calls itself
   */
  @Nullable String fullFor(String host, String session) {
    int ofHost = byHost.getOrDefault(host, 0);
    int left = MAX - size;
    if (ofHost >= left) {
      return "waiting_pulls=" + ofHost + " of host=" + host + ", places left=" + left;
    }
    int own = bySession.getOrDefault(session, 0);
    return own >= MAX_PER_SESSION ? "waiting_pulls=" + own + " of peer=" + session : null;
  }

  /** Waits until the deadline, which goes with it. */
  void add(Waiting waiter, Deadline deadline) {
    waiter.deadline = deadline;
    byTransfer.computeIfAbsent(waiter.entry.transferId(), t -> new LinkedHashSet<>()).add(waiter);
    byPeer.computeIfAbsent(waiter.pull.from, p -> new LinkedHashSet<>()).add(waiter);
    bySession.merge(waiter.pull.session, 1, Integer::sum);
    byHost.merge(waiter.pull.from.host(), 1, Integer::sum);
    size++;
  }

  /** It waits no more. */
  void remove(Waiting waiter) {
    if (!removeFrom(byTransfer, waiter.entry.transferId(), waiter)) {
      return;
    }
    removeFrom(byPeer, waiter.pull.from, waiter);
    oneLess(bySession, waiter.pull.session);
    oneLess(byHost, waiter.pull.from.host());
    size--;
    if (waiter.deadline != null) {
      waiter.deadline.cancel();
    }
  }

  private static void oneLess(Map<String, Integer> counts, String key) {
    counts.computeIfPresent(key, (k, n) -> n == 1 ? null : n - 1);
  }

  private static <K> boolean removeFrom(Map<K, Set<Waiting>> map, K key, Waiting waiter) {
    Set<Waiting> waiters = map.get(key);
    if (waiters == null || !waiters.remove(waiter)) {
      return false;
    }
    if (waiters.isEmpty()) {
      map.remove(key);
    }
    return true;
  }

  /** Those of a transfer, in the order in which they came. */
  List<Waiting> of(String transferId) {
    return List.copyOf(byTransfer.getOrDefault(transferId, Set.of()));
  }

  /** The same; they wait no more. */
  List<Waiting> take(String transferId) {
    List<Waiting> taken = of(transferId);
    taken.forEach(this::remove);
    return taken;
  }

  /** Forgets those of a connection that has ended; returns them. */
  List<Waiting> drop(PeerIdentity peer) {
    List<Waiting> dropped = List.copyOf(byPeer.getOrDefault(peer, Set.of()));
    dropped.forEach(this::remove);
    dropped.forEach(waiter -> waiter.waited("gone", null, null));
    return dropped;
  }

  /** The transfers that are waited for. */
  List<String> transferIds() {
    return List.copyOf(byTransfer.keySet());
  }

  int size() {
    return size;
  }
}
