package dev.mooncake4j.core.scheduler;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.StepPlan;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The decoder's half of the bookkeeping: one entry for each request that fetches, from the first
 * time it is seen until the server is done with it and no worker may write to its blocks.
 *
 * <pre>
 * state     | allocated            | handed over | reported | finished
 * ----------+----------------------+-------------+----------+---------------------------
 * WAITING   | PLANNED; or SETTLED, |             |          | plans a release; gone
 *           | if it only releases  |             |          |
 * PLANNED   |                      | PULLING     |          | becomes a release; gone
 * PULLING   |                      |             | SETTLED  | CANCELLED, blocks kept
 * CANCELLED |                      |             | gone     | blocks kept
 * SETTLED   |                      |             |          | gone
 * </pre>
 *
 * <p>An empty cell changes nothing.
 */
final class PullBook {
  private enum State {
    /** Seen, no blocks yet. */
    WAITING,
    /** Its pull goes out with the next step. */
    PLANNED,
    /** The workers are at it. */
    PULLING,
    /** Finished by the server while the workers are at it. */
    CANCELLED,
    /** Nothing is under way for it any more; remembered so that it is not fetched twice. */
    SETTLED
  }

  private static final class Entry {
    final String requestId;
    final PullTarget target;
    State state = State.WAITING;

    Entry(String requestId, PullTarget target) {
      this.requestId = requestId;
      this.target = target;
    }

    StepPlan.Pull pull(BlockIds blocks) {
      return new StepPlan.Pull(
          requestId,
          target.transferId(),
          target.remoteEngineId(),
          target.remoteBootstrapAddr(),
          blocks,
          target.trace());
    }
  }

  private final boolean leases;
  private final Map<String, Entry> byRequest = new HashMap<>();
  private final Map<String, Entry> byTransfer = new HashMap<>();

  // For the next step, by transfer id.
  private final Map<String, StepPlan.Arrival> arrivals = new LinkedHashMap<>();
  private final Map<String, StepPlan.Pull> pulls = new LinkedHashMap<>();
  private final Set<String> cancelled = new LinkedHashSet<>();

  PullBook(boolean leases) {
    this.leases = leases;
  }

  /** Whether there is an entry for this request. */
  boolean knows(String requestId) {
    return byRequest.containsKey(requestId);
  }

  /** Whether there is an entry for this request and transfer that the server is not done with. */
  boolean isLive(String requestId, @Nullable String transferId) {
    Entry entry = find(requestId, transferId);
    return entry != null && entry.state != State.CANCELLED;
  }

  /** Whether the server is done with this request and its blocks are kept all the same. */
  boolean isKept(String requestId, @Nullable String transferId) {
    Entry entry = find(requestId, transferId);
    return entry != null && entry.state == State.CANCELLED;
  }

  /**
   * The request that fetches a transfer, or whose release the workers have not been told of yet;
   * {@code null} if there is none.
   */
  @Nullable String requestOf(String transferId) {
    Entry entry = byTransfer.get(transferId);
    if (entry != null) {
      return entry.requestId;
    }
    StepPlan.Pull release = pulls.get(transferId);
    return release == null ? null : release.requestId();
  }

  /** Makes an entry; neither the request's id nor its transfer's may have one. */
  void open(String requestId, PullTarget target) {
    Entry entry = new Entry(requestId, target);
    byRequest.put(requestId, entry);
    byTransfer.put(target.transferId(), entry);
    if (leases) {
      arrivals.put(
          target.transferId(),
          new StepPlan.Arrival(
              requestId,
              target.transferId(),
              target.remoteEngineId(),
              target.remoteBootstrapAddr()));
    }
  }

  /** Whether its blocks are still to be asked for. */
  boolean isWaiting(String requestId) {
    return entry(requestId).state == State.WAITING;
  }

  /** Plans the pull, the first time; with no blocks it only releases. */
  void allocated(String requestId, BlockIds blocks) {
    Entry entry = entry(requestId);
    if (entry.state != State.WAITING) {
      return;
    }
    pulls.put(entry.target.transferId(), entry.pull(blocks));
    // No worker reports a pull that only releases: there is nothing to wait for.
    entry.state = blocks.isEmpty() ? State.SETTLED : State.PLANNED;
  }

  /** The server is done with a live request. */
  FinishDecision finished(String requestId) {
    Entry entry = entry(requestId);
    return switch (entry.state) {
      case WAITING, PLANNED -> {
        // No worker has seen a block of this request, so they are free; the prefiller's are not.
        arrivals.remove(entry.target.transferId());
        pulls.put(entry.target.transferId(), entry.pull(BlockIds.none()));
        forget(entry);
        yield FinishDecision.FREE_NOW;
      }
      case PULLING -> {
        entry.state = State.CANCELLED;
        cancelled.add(requestId);
        yield FinishDecision.KEEP;
      }
      case CANCELLED -> FinishDecision.KEEP;
      case SETTLED -> {
        forget(entry);
        yield FinishDecision.FREE_NOW;
      }
    };
  }

  /**
   * The workers have reported a request.
   *
   * @param transferId its transfer, or {@code null} where the report does not say
   */
  void reported(String requestId, @Nullable String transferId) {
    Entry entry = byRequest.get(requestId);
    if (entry == null || (transferId != null && !transferId.equals(entry.target.transferId()))) {
      return;
    }
    if (entry.state == State.PULLING) {
      entry.state = State.SETTLED;
    } else if (entry.state == State.CANCELLED) {
      cancelled.remove(requestId);
      forget(entry);
    }
  }

  List<StepPlan.Arrival> takeArrivals() {
    List<StepPlan.Arrival> taken = new ArrayList<>(arrivals.values());
    arrivals.clear();
    return taken;
  }

  List<StepPlan.Pull> takePulls() {
    List<StepPlan.Pull> taken = new ArrayList<>(pulls.values());
    pulls.clear();
    for (StepPlan.Pull pull : taken) {
      Entry entry = find(pull.requestId(), pull.transferId());
      if (entry != null && entry.state == State.PLANNED) {
        entry.state = State.PULLING;
      }
    }
    return taken;
  }

  List<String> takeCancelled() {
    List<String> taken = new ArrayList<>(cancelled);
    cancelled.clear();
    return taken;
  }

  /** Everything remembered; 0 when all requests have ended and the last step was taken. */
  int size() {
    return byRequest.size() + byTransfer.size() + arrivals.size() + pulls.size() + cancelled.size();
  }

  private void forget(Entry entry) {
    byRequest.remove(entry.requestId);
    byTransfer.remove(entry.target.transferId());
  }

  private @Nullable Entry find(String requestId, @Nullable String transferId) {
    Entry entry = byRequest.get(requestId);
    return entry != null && entry.target.transferId().equals(transferId) ? entry : null;
  }

  private Entry entry(String requestId) {
    Entry entry = byRequest.get(requestId);
    if (entry == null) {
      throw new IllegalStateException("request_id=" + requestId + " has no pull");
    }
    return entry;
  }
}
