package dev.mooncake4j.bootstrap;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Who had registered at the moment of asking: what {@code GET /query} answers.
 *
 * <p>Immutable. Nothing in it says whether an engine's workers are complete: a server that is asked
 * while they register answers with those that it has.
 *
 * @param engines by data-parallel rank, in ascending order; empty when nobody has registered
 */
public record QueryAnswer(Map<Integer, EngineEntry> engines) {

  /** Nobody has registered. */
  static final QueryAnswer EMPTY = new QueryAnswer(Map.of());

  /** Takes a copy. */
  public QueryAnswer {
    engines = Collections.unmodifiableMap(new TreeMap<>(engines));
  }

  /** The entry of this engine, or {@code null} if it has not registered. */
  public @Nullable EngineEntry engine(String engineId) {
    for (EngineEntry entry : engines.values()) {
      if (entry.engineId().equals(engineId)) {
        return entry;
      }
    }
    return null;
  }

  /**
   * One engine's workers.
   *
   * @param engineId the engine
   * @param workers side-channel addresses, {@code tcp://host:port}, by tensor-parallel rank and
   *     then by pipeline stage, both in ascending order. An answer's text is a peer's: parse before
   *     use
   */
  public record EngineEntry(String engineId, Map<Integer, Map<Integer, String>> workers) {

    /** Takes a copy. */
    public EngineEntry {
      TreeMap<Integer, Map<Integer, String>> copy = new TreeMap<>();
      workers.forEach(
          (tp, stages) -> copy.put(tp, Collections.unmodifiableMap(new TreeMap<>(stages))));
      workers = Collections.unmodifiableMap(copy);
    }

    /** The address of one worker, or {@code null} if it has not registered. */
    public @Nullable String addr(int tpRank, int ppRank) {
      Map<Integer, String> stages = workers.get(tpRank);
      return stages == null ? null : stages.get(ppRank);
    }

    /** All addresses, by rank. */
    List<String> addrs() {
      List<String> all = new ArrayList<>();
      for (Map<Integer, String> stages : workers.values()) {
        all.addAll(stages.values());
      }
      return all;
    }

    /** This entry with one worker's address set. */
    EngineEntry with(int tpRank, int ppRank, String addr) {
      TreeMap<Integer, Map<Integer, String>> copy = new TreeMap<>(workers);
      TreeMap<Integer, String> stages = new TreeMap<>(workers.getOrDefault(tpRank, Map.of()));
      stages.put(ppRank, addr);
      copy.put(tpRank, stages);
      return new EngineEntry(engineId, copy);
    }

    /** This entry less one worker; without workers if that was the last. */
    EngineEntry without(int tpRank, int ppRank) {
      TreeMap<Integer, Map<Integer, String>> copy = new TreeMap<>(workers);
      TreeMap<Integer, String> stages = new TreeMap<>(workers.getOrDefault(tpRank, Map.of()));
      stages.remove(ppRank);
      if (stages.isEmpty()) {
        copy.remove(tpRank);
      } else {
        copy.put(tpRank, stages);
      }
      return new EngineEntry(engineId, copy);
    }
  }
}
