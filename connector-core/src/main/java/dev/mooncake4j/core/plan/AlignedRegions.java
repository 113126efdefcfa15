package dev.mooncake4j.core.plan;

import java.util.List;

/**
 * Regions of two sides that belong together: those at the same position. Immutable.
 *
 * @param local this side's
 * @param remote the other's, as many
 */
public record AlignedRegions(List<TransferRegion> local, List<TransferRegion> remote) {

  /** Copies the lists. */
  public AlignedRegions {
    local = List.copyOf(local);
    remote = List.copyOf(remote);
    if (local.size() != remote.size()) {
      throw new IllegalArgumentException(
          "local regions=" + local.size() + ", remote regions=" + remote.size());
    }
  }

  /** Number of pairs. */
  public int size() {
    return local.size();
  }
}
