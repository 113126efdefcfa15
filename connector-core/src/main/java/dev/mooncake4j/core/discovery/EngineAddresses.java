package dev.mooncake4j.core.discovery;

import java.util.Map;

/**
 * The side-channel addresses of one engine's ranks.
 *
 * @param dpRank data-parallel rank
 * @param engineId the engine
 * @param byTpAndPp tensor-parallel rank → pipeline stage → {@code tcp://host:port}
 */
public record EngineAddresses(
    int dpRank, String engineId, Map<Integer, Map<Integer, String>> byTpAndPp) {

  /** Copies the maps. */
  public EngineAddresses {
    byTpAndPp =
        byTpAndPp.entrySet().stream()
            .collect(
                java.util.stream.Collectors.toUnmodifiableMap(
                    Map.Entry::getKey, e -> Map.copyOf(e.getValue())));
  }

  /** Number of tensor-parallel ranks registered. */
  public int tpSize() {
    return byTpAndPp.size();
  }

  /** Number of pipeline stages of the first rank. */
  public int ppSize() {
    Map<Integer, String> stages = byTpAndPp.get(0);
    return stages == null ? 0 : stages.size();
  }

  /** Whether ranks 0 to n-1 are there, each with the same stages 0 to m-1, at least one of each. */
  public boolean isComplete() {
    int pp = ppSize();
    if (pp == 0) {
      return false;
    }
    for (int tp = 0; tp < tpSize(); tp++) {
      Map<Integer, String> stages = byTpAndPp.get(tp);
      if (stages == null || stages.size() != pp) {
        return false;
      }
      for (int stage = 0; stage < pp; stage++) {
        if (!stages.containsKey(stage)) {
          return false;
        }
      }
    }
    return true;
  }

  /** The address of one rank; must be there. */
  public String address(int tpRank, int ppRank) {
    Map<Integer, String> stages = byTpAndPp.get(tpRank);
    String address = stages == null ? null : stages.get(ppRank);
    if (address == null) {
      throw new IllegalArgumentException(
          "engine_id=" + engineId + " has no rank tp_rank=" + tpRank + " pp_rank=" + ppRank);
    }
    return address;
  }
}
