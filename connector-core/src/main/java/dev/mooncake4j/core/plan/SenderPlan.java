package dev.mooncake4j.core.plan;

/**
 * What one prefiller rank copies of each block to one decoder rank. The rule is vLLM's.
 *
 * @param sends whether it copies at all: of ranks that hold the same KV, one does
 * @param sourceOffset first byte within the prefiller's block
 * @param destinationOffset first byte within the decoder's block
 * @param length bytes
 */
public record SenderPlan(boolean sends, long sourceOffset, long destinationOffset, long length) {

  /**
   * Plans the copy of a block between two ranks that pair.
   *
   * @param tpRank the prefiller's rank
   * @param tpSize its engine's size
   * @param remoteTpRank the decoder's rank
   * @param remoteTpSize its engine's size
   * @param kvBlockLen bytes of KV in a block of the prefiller
   * @param remoteKvBlockLen the same at the decoder
   * @param replicated whether ranks of the prefiller hold copies of each other's KV
   * @param totalKvHeads KV heads of the model by which a block can be split, or 0 where it cannot
   *     or they are not known
   * @throws PlanException if no tensor-parallel size divides the other
   */
  public static SenderPlan of(
      int tpRank,
      int tpSize,
      int remoteTpRank,
      int remoteTpSize,
      long kvBlockLen,
      long remoteKvBlockLen,
      boolean replicated,
      int totalKvHeads) {
    int ratio = RankPairing.ratio(tpSize, remoteTpSize);
    if (ratio == 1) {
      return new SenderPlan(true, 0, 0, kvBlockLen);
    }
    if (splitsHeads(remoteTpSize, replicated, totalKvHeads)) {
      // One side keeps each head once and the other keeps copies: a copy is one head long, and each
      // rank's first head says where it goes.
      long headBytes = kvBlockLen / Math.max(totalKvHeads / tpSize, 1);
      int replicas = Math.max(tpSize / totalKvHeads, 1);
      long head = (long) tpRank * totalKvHeads / tpSize;
      long remoteHead = (long) remoteTpRank * totalKvHeads / remoteTpSize;
      return new SenderPlan(
          tpRank % replicas == 0,
          Math.max(remoteHead - head, 0) * headBytes,
          Math.max(head - remoteHead, 0) * headBytes,
          headBytes);
    }
    if (replicated) {
      return new SenderPlan(ratio < 0 || tpRank % ratio == 0, 0, 0, kvBlockLen);
    }
    if (ratio > 0) {
      return new SenderPlan(true, 0, tpRank % ratio * kvBlockLen, kvBlockLen);
    }
    return new SenderPlan(true, remoteTpRank % -ratio * remoteKvBlockLen, 0, remoteKvBlockLen);
  }

  /** Whether one side keeps copies of a head and the other does not. */
  static boolean splitsHeads(int remoteTpSize, boolean replicated, int totalKvHeads) {
    return totalKvHeads > 0 && replicated != (remoteTpSize > totalKvHeads);
  }
}
