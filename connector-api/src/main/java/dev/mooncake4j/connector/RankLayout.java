package dev.mooncake4j.connector;

import java.io.Serializable;

/**
 * The place of one worker among the ranks of its engine.
 *
 * @param tpRank tensor-parallel rank, 0 to {@code tpSize - 1}
 * @param tpSize tensor-parallel size, at least 1
 * @param ppRank pipeline stage, 0 to {@code ppSize - 1}
 * @param ppSize number of pipeline stages, at least 1
 * @param dpRank data-parallel rank, at least 0
 */
public record RankLayout(int tpRank, int tpSize, int ppRank, int ppSize, int dpRank)
    implements Serializable {

  /** Checks the ranges. */
  public RankLayout {
    if (tpSize < 1 || tpRank < 0 || tpRank >= tpSize) {
      throw new IllegalArgumentException(
          "tp_rank=" + tpRank + " is not within tp_size=" + tpSize + ": give 0 to tp_size - 1");
    }
    if (ppSize < 1 || ppRank < 0 || ppRank >= ppSize) {
      throw new IllegalArgumentException(
          "pp_rank=" + ppRank + " is not within pp_size=" + ppSize + ": give 0 to pp_size - 1");
    }
    if (dpRank < 0) {
      throw new IllegalArgumentException("dp_rank=" + dpRank + " is negative: give 0 or more");
    }
  }

  /** The only rank of an engine that has one. */
  public static RankLayout single() {
    return new RankLayout(0, 1, 0, 1, 0);
  }

  /** Whether this rank hosts the engine's bootstrap server: the first of every kind. */
  public boolean isFirst() {
    return tpRank == 0 && ppRank == 0 && dpRank == 0;
  }
}
