package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.QueryAnswer.EngineEntry;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which worker listens where: the state behind the endpoints, and the only place that changes it.
 *
 * <p>Thread-safe. Changes take a lock; a reader takes the last snapshot, whose JSON is written for
 * the first query after a change, so that a further one costs nothing but the bytes.
 *
 * <p>The rules and their texts are vLLM's: the same registration again is fine, another address for
 * a rank or another engine for a data-parallel rank is refused. Other than there, an occupant that
 * is known to be gone makes room: {@link #register} takes the addresses known to be dead, and names
 * those that are still in the way.
 */
final class WorkerRegistry {
  private static final Logger log = LoggerFactory.getLogger(WorkerRegistry.class);

  /** What became of a registration. */
  sealed interface Outcome {}

  /** It is in the registry. */
  record Registered() implements Outcome {}

  /**
   * It is not.
   *
   * @param status the HTTP status that says so
   * @param detail the text that says why
   * @param retryAfterSeconds after which it may be tried again, 0 where that is not known
   */
  record Refused(int status, String detail, int retryAfterSeconds) implements Outcome {}

  /**
   * It is not, for the workers at these addresses are in the way.
   *
   * @param occupants their addresses, at least one
   */
  record Occupied(String detail, List<String> occupants) implements Outcome {}

  /** The registry at one moment; immutable, the bytes too by agreement. */
  static final class Snapshot {
    private final QueryAnswer answer;

    /** At least the length of the JSON. */
    private final int cost;

    private volatile byte @Nullable [] json;

    private Snapshot(QueryAnswer answer, int cost) {
      this.answer = answer;
      this.cost = cost;
    }

    QueryAnswer answer() {
      return answer;
    }

    /** What {@code /query} answers, written once; not to be written to. */
    byte[] json() {
      byte[] written = json;
      if (written == null) {
        written = QueryJson.write(answer);
        json = written;
      }
      return written;
    }
  }

  private static final Registered REGISTERED = new Registered();

  /** The successor of a server that is closing is there within that, or later. */
  private static final int RETRY_AFTER_SECONDS = 5;

  /** Guarded by this for changes. */
  private volatile boolean draining;

  /** Data-parallel ranks kept for engines that have not registered yet. Guarded by this. */
  private final Map<Integer, String> kept = new HashMap<>();

  private volatile Snapshot snapshot = new Snapshot(QueryAnswer.EMPTY, QueryJson.EMPTY_COST);

  /** The last state. */
  Snapshot snapshot() {
    return snapshot;
  }

  /** Keeps a data-parallel rank for an engine until its first worker has registered. */
  synchronized void keep(int dpRank, String engineId) {
    kept.put(dpRank, engineId);
  }

  /**
   * From now on nobody new is taken; what is there stays.
   *
   * @return whether it was not so before
   */
  synchronized boolean drain() {
    boolean first = !draining;
    draining = true;
    return first;
  }

  boolean isDraining() {
    return draining;
  }

  /**
   * Registers a worker.
   *
   * @param gone addresses at which nobody listens any more
   */
  synchronized Outcome register(RegisterRequest worker, Set<String> gone) {
    EngineEntry entry = snapshot.answer().engines().get(worker.dpRank());
    if (draining && !isPresent(entry, worker)) {
      return new Refused(
          503,
          "the bootstrap server is closing and takes no more workers: register again when it has"
              + " been started anew, or at another one",
          RETRY_AFTER_SECONDS);
    }
    String keptFor = kept.get(worker.dpRank());
    if (keptFor != null && !keptFor.equals(worker.engineId())) {
      return new Refused(400, mismatch(worker, keptFor), 0);
    }
    EngineEntry next;
    if (entry == null) {
      next = newEntry(worker);
    } else if (!entry.engineId().equals(worker.engineId())) {
      List<String> alive = new ArrayList<>(entry.addrs());
      alive.removeAll(gone);
      if (!alive.isEmpty()) {
        return new Occupied(mismatch(worker, entry.engineId()), alive);
      }
      log.info(
          "engine replaced, all its workers are gone: dp_rank={}, old engine_id={}, new engine_id={}",
          worker.dpRank(),
          entry.engineId(),
          worker.engineId());
      next = newEntry(worker);
    } else {
      String present = entry.addr(worker.tpRank(), worker.ppRank());
      if (worker.addr().equals(present)) {
        return REGISTERED;
      }
      if (present != null) {
        if (!gone.contains(present)) {
          return new Occupied(
              "Worker with dp_rank="
                  + worker.dpRank()
                  + ", tp_rank="
                  + worker.tpRank()
                  + ", pp_rank="
                  + worker.ppRank()
                  + " is already registered at "
                  + present
                  + ", but still want to register at "
                  + worker.addr(),
              List.of(present));
        }
        log.info("worker replaced, the old one is gone: old addr={}, new {}", present, worker);
      }
      next = entry.with(worker.tpRank(), worker.ppRank(), worker.addr());
    }
    // Counted, not written and measured: a registration costs the same however full it is here.
    int cost = snapshot.cost - costOf(entry) + costOf(next);
    if (cost > Json.MAX_ANSWER_BYTES) {
      return new Refused(
          503,
          "the registry is full: limit_bytes="
              + Json.MAX_ANSWER_BYTES
              + "; start another bootstrap server for further engines",
          0);
    }
    snapshot = new Snapshot(withEntry(worker.dpRank(), next), cost);
    kept.remove(worker.dpRank());
    log.debug("registered {}", worker);
    return REGISTERED;
  }

  /**
   * Removes a worker, if it is the one that is registered; otherwise does nothing: a late farewell
   * of a former engine, or of a former process of this one, harms nobody.
   *
   * @param addr the address that it had, or {@code null} for whichever
   * @return whether it was there
   */
  synchronized boolean deregister(
      String engineId, int dpRank, int tpRank, int ppRank, @Nullable String addr) {
    EngineEntry entry = snapshot.answer().engines().get(dpRank);
    if (entry == null || !entry.engineId().equals(engineId)) {
      return false;
    }
    String present = entry.addr(tpRank, ppRank);
    if (present == null || (addr != null && !addr.equals(present))) {
      return false;
    }
    EngineEntry rest = entry.without(tpRank, ppRank);
    EngineEntry next = rest.workers().isEmpty() ? null : rest;
    snapshot = new Snapshot(withEntry(dpRank, next), snapshot.cost - costOf(entry) + costOf(next));
    log.debug(
        "deregistered engine_id={}, dp_rank={}, tp_rank={}, pp_rank={}",
        engineId,
        dpRank,
        tpRank,
        ppRank);
    return true;
  }

  private static String mismatch(RegisterRequest worker, String expected) {
    return "Engine ID mismatch for dp_rank="
        + worker.dpRank()
        + ": expected "
        + expected
        + ", got "
        + worker.engineId();
  }

  private static boolean isPresent(@Nullable EngineEntry entry, RegisterRequest worker) {
    return entry != null
        && entry.engineId().equals(worker.engineId())
        && worker.addr().equals(entry.addr(worker.tpRank(), worker.ppRank()));
  }

  private static int costOf(@Nullable EngineEntry entry) {
    return entry == null ? 0 : QueryJson.costOf(entry);
  }

  private static EngineEntry newEntry(RegisterRequest worker) {
    return new EngineEntry(worker.engineId(), Map.of())
        .with(worker.tpRank(), worker.ppRank(), worker.addr());
  }

  private QueryAnswer withEntry(int dpRank, @Nullable EngineEntry entry) {
    TreeMap<Integer, EngineEntry> engines = new TreeMap<>(snapshot.answer().engines());
    if (entry == null) {
      engines.remove(dpRank);
    } else {
      engines.put(dpRank, entry);
    }
    return new QueryAnswer(engines);
  }
}
