package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.core.plan.PlanException.Reason;

/**
 * Which ranks of two engines talk to each other.
 *
 * <p>Tensor-parallel sizes must divide one another. A rank of the larger engine has one partner; a
 * rank of the smaller one has as many as the sizes' quotient, next to each other. The rule is
 * symmetric, and vLLM's.
 */
public final class RankPairing {

  /** Largest size of either kind that is believed: it bounds what a peer's number can cost. */
  public static final int MAX_SIZE = 1 << 15;

  private RankPairing() {}

  /**
   * The tensor-parallel ranks of the other engine that a rank pairs with, ascending.
   *
   * @throws PlanException if no size divides the other, or a number is out of its range
   */
  public static int[] targetRanks(int tpRank, int tpSize, int remoteTpSize) {
    checkRank("tp", tpRank, tpSize);
    int ratio = ratio(tpSize, remoteTpSize);
    if (ratio > 0) {
      return new int[] {tpRank / ratio};
    }
    int[] ranks = new int[-ratio];
    for (int i = 0; i < ranks.length; i++) {
      ranks[i] = tpRank * -ratio + i;
    }
    return ranks;
  }

  /**
   * The pipeline stages of the other engine that a rank pairs with, ascending: its own where both
   * engines have the same number of stages, else all.
   *
   * @throws PlanException if a number is out of its range
   */
  public static int[] targetStages(int ppRank, int ppSize, int remotePpSize) {
    checkRank("pp", ppRank, ppSize);
    checkSize("remote_pp_size", remotePpSize);
    if (ppSize == remotePpSize) {
      return new int[] {ppRank};
    }
    int[] stages = new int[remotePpSize];
    for (int i = 0; i < stages.length; i++) {
      stages[i] = i;
    }
    return stages;
  }

  /**
   * How many decoder ranks pull a request from one prefiller rank: its blocks may be freed when as
   * many have been served.
   *
   * <p>Each stage of a decoder whose pipeline has another size pulls from every stage of the
   * prefiller, also where they share no layer.
   *
   * @throws PlanException if no tensor-parallel size divides the other, or a number is out of its
   *     range
   */
  public static int consumerCount(RankLayout producer, int remoteTpSize, int remotePpSize) {
    checkSize("remote_pp_size", remotePpSize);
    int ratio = ratio(producer.tpSize(), remoteTpSize);
    int ranks = ratio > 0 ? 1 : -ratio;
    return remotePpSize == producer.ppSize() ? ranks : ranks * remotePpSize;
  }

  /**
   * Checks that a rank is one that this rank pairs with.
   *
   * @throws PlanException if it is not, or is not a rank at all
   */
  static void checkPaired(int tpRank, int tpSize, int remoteTpRank, int remoteTpSize) {
    checkRank("tp", tpRank, tpSize);
    int ratio = ratio(tpSize, remoteTpSize);
    checkRank("remote_tp", remoteTpRank, remoteTpSize);
    int first = ratio > 0 ? tpRank / ratio : tpRank * -ratio;
    int last = ratio > 0 ? first : first - ratio - 1;
    if (remoteTpRank < first || remoteTpRank > last) {
      throw new PlanException(
          Reason.NOT_PAIRED,
          "remote_tp_rank="
              + remoteTpRank
              + " of remote_tp_size="
              + remoteTpSize
              + " does not pair with tp_rank="
              + tpRank
              + " of tp_size="
              + tpSize
              + ": it pairs with "
              + first
              + (first == last ? "" : " to " + last));
    }
  }

  /**
   * {@code tpSize / remoteTpSize}, or {@code -(remoteTpSize / tpSize)} where the other engine has
   * more ranks.
   *
   * @throws PlanException if no size divides the other, or one is out of its range
   */
  static int ratio(int tpSize, int remoteTpSize) {
    checkSize("tp_size", tpSize);
    checkSize("remote_tp_size", remoteTpSize);
    int larger = Math.max(tpSize, remoteTpSize);
    int smaller = Math.min(tpSize, remoteTpSize);
    if (larger % smaller != 0) {
      throw new PlanException(
          Reason.TP_SIZE,
          "tp_size="
              + tpSize
              + " and remote_tp_size="
              + remoteTpSize
              + " do not divide: give sizes of which one is a multiple of the other");
    }
    return tpSize >= remoteTpSize ? larger / smaller : -(larger / smaller);
  }

  private static void checkSize(String name, int size) {
    if (size < 1 || size > MAX_SIZE) {
      throw new PlanException(Reason.RANK, name + "=" + size + " is not within 1 to " + MAX_SIZE);
    }
  }

  private static void checkRank(String kind, int rank, int size) {
    checkSize(kind + "_size", size);
    if (rank < 0 || rank >= size) {
      throw new PlanException(
          Reason.RANK, kind + "_rank=" + rank + " is not within " + kind + "_size=" + size);
    }
  }
}
