package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.wire.PullEntry;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Requests of decoders that wait for their prefill, or for a transfer nobody has heard of: found by
 * transfer, and by the connection that the answer goes to. Bounded, also for each decoder, so that
 * one that asks without end leaves room for the others. Owned by the worker loop.
 */
final class WaitingPulls {
  /** Past it further ones are refused at once. */
  static final int MAX = 65_536;

  /** The same for one decoder rank, named by its session. */
  static final int MAX_PER_SESSION = 16_384;

  private final Map<String, Set<Waiting>> byTransfer = new HashMap<>();
  private final Map<PeerIdentity, Set<Waiting>> byPeer = new HashMap<>();
  private final Map<String, Integer> bySession = new HashMap<>();
  private int size;

  /** One request; equal to none but itself. */
  static final class Waiting {
    final ServedPull pull;
    final PullEntry entry;
    private @Nullable Deadline deadline;

    Waiting(ServedPull pull, PullEntry entry) {
      this.pull = pull;
      this.entry = entry;
    }
  }

  /** Which bound lets no further one of this decoder wait, or {@code null} if none does. */
  @Nullable String fullFor(String session) {
    if (size >= MAX) {
      return "waiting_pulls=" + size;
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
    size++;
  }

  /** It waits no more. */
  void remove(Waiting waiter) {
    if (!removeFrom(byTransfer, waiter.entry.transferId(), waiter)) {
      return;
    }
    removeFrom(byPeer, waiter.pull.from, waiter);
    bySession.computeIfPresent(waiter.pull.session, (s, n) -> n == 1 ? null : n - 1);
    size--;
    if (waiter.deadline != null) {
      waiter.deadline.cancel();
    }
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

  /** Those of a transfer, in the order in which they came; they wait no more. */
  List<Waiting> take(String transferId) {
    List<Waiting> taken = List.copyOf(byTransfer.getOrDefault(transferId, Set.of()));
    taken.forEach(this::remove);
    return taken;
  }

  /** Forgets those of a connection that has ended; returns how many. */
  int drop(PeerIdentity peer) {
    List<Waiting> dropped = List.copyOf(byPeer.getOrDefault(peer, Set.of()));
    dropped.forEach(this::remove);
    return dropped.size();
  }

  /** The transfers that are waited for. */
  List<String> transferIds() {
    return List.copyOf(byTransfer.keySet());
  }

  int size() {
    return size;
  }
}
