package dev.mooncake4j.connector;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * What one worker has to report since it was last asked.
 *
 * <p>Each request that a worker accepted is named exactly once in one of the first three lists; a
 * pull that only releases blocks is never named. One that failed before its blocks were quiet is
 * named a second time, in the last. Plain data, immutable.
 *
 * @param sent prefiller: requests whose blocks may be freed
 * @param received decoder: ids of requests whose blocks are all in place
 * @param failed decoder: requests whose load failed; their blocks hold no valid KV, and are to be
 *     kept if the failure is not {@link Failure#quiet() quiet}
 * @param quieted decoder: requests reported before as failed and not quiet, whose blocks may be
 *     used again from now on
 */
public record StepResult(
    List<Sent> sent, List<String> received, List<Failure> failed, List<Failure> quieted)
    implements Serializable {

  private static final StepResult EMPTY =
      new StepResult(List.of(), List.of(), List.of(), List.of());

  /** Copies the lists. */
  public StepResult {
    sent = List.copyOf(sent);
    received = List.copyOf(received);
    failed = List.copyOf(failed);
    quieted = List.copyOf(quieted);
  }

  /** Nothing to report. */
  public static StepResult empty() {
    return EMPTY;
  }

  /** Whether there is nothing to report. */
  public boolean isEmpty() {
    return sent.isEmpty() && received.isEmpty() && failed.isEmpty() && quieted.isEmpty();
  }

  /**
   * The ids of all blocks whose load failed, ascending. Of use with one KV cache group only: with
   * several, ids are unique within a group alone and {@link #failed()} tells them apart.
   */
  public Set<Integer> failedBlockIds() {
    Set<Integer> ids = new TreeSet<>();
    for (Failure failure : failed) {
      for (int g = 0; g < failure.blocks().groupCount(); g++) {
        for (int id : failure.blocks().toArray(g)) {
          ids.add(id);
        }
      }
    }
    return ids;
  }

  /** This result followed by another. */
  public StepResult plus(StepResult other) {
    if (isEmpty()) {
      return other;
    }
    return other.isEmpty()
        ? this
        : new StepResult(
            concat(sent, other.sent),
            concat(received, other.received),
            concat(failed, other.failed),
            concat(quieted, other.quieted));
  }

  private static <T> List<T> concat(List<T> a, List<T> b) {
    List<T> all = new ArrayList<>(a.size() + b.size());
    all.addAll(a);
    all.addAll(b);
    return all;
  }

  /** Why a prefiller's blocks may be freed. */
  public enum SendEnd {
    /** Every decoder rank that pairs with this one has been served. */
    SERVED,
    /** Nobody fetched them in time. */
    EXPIRED,
    /** The decoder, a router or the server let them go. */
    RELEASED
  }

  /**
   * A prefiller's request whose blocks may be freed. Reported once the request was in a plan's
   * {@link StepPlan#ready()}, or in its {@link StepPlan#cancelledSends()} with the blocks kept,
   * never before, also where the transfer was let go earlier.
   *
   * @param requestId the prefiller's request id
   * @param transferId the transfer's id
   * @param end why
   */
  public record Sent(String requestId, String transferId, SendEnd end) implements Serializable {}
}
