package dev.mooncake4j.core.plan;

import java.util.List;

/**
 * What a pull tells of the decoder rank that sent it. Unchecked, as it came. Immutable.
 *
 * @param tpRank the peer's tensor-parallel rank
 * @param tpSize its tensor-parallel size
 * @param ppSize its number of pipeline stages
 * @param regions its KV memory
 */
public record PeerLayout(int tpRank, int tpSize, int ppSize, List<TransferRegion> regions) {

  /** Copies the list. */
  public PeerLayout {
    regions = List.copyOf(regions);
  }
}
