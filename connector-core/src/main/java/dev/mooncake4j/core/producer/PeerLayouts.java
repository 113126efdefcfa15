package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.PeerLayout;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.plan.TransferRegion;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.WireLayout;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Decoders' layouts, already paired with ours: sent once by a decoder, named by id from then on.
 * Owned by the worker loop.
 */
final class PeerLayouts {
  /** As many as a vLLM prefiller keeps; the least recently used goes first. */
  static final int MAX_PEERS = 1024;

  private final LocalCache local;
  private final Map<Key, PeerPlan> plans =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Key, PeerPlan> eldest) {
          return size() > MAX_PEERS;
        }
      };

  private record Key(String host, int port, int tpRank, int tpSize, int ppSize, long layoutId) {
    static Key of(PullRequest pull) {
      return new Key(
          pull.remoteHostname(),
          pull.remotePort(),
          pull.remoteTpRank(),
          pull.remoteTpSize(),
          pull.remotePpSize(),
          pull.layoutId());
    }
  }

  PeerLayouts(LocalCache local) {
    this.local = local;
  }

  /**
   * The plan for a pull's layout; nothing if the pull names a layout that is not kept: the decoder
   * is to send it again.
   *
   * @throws dev.mooncake4j.core.plan.PlanException if the two layouts do not fit together
   */
  @Nullable PeerPlan resolve(PullRequest pull) {
    boolean named = pull.layoutId() != 0;
    if (named && pull.layout().isEmpty()) {
      return plans.get(Key.of(pull));
    }
    PeerPlan plan = PeerPlan.prepare(local, peer(pull));
    if (named) {
      plans.put(Key.of(pull), plan);
    }
    return plan;
  }

  void clear() {
    plans.clear();
  }

  int size() {
    return plans.size();
  }

  static String session(PullRequest pull) {
    return HostAddresses.join(pull.remoteHostname(), pull.remotePort());
  }

  private static PeerLayout peer(PullRequest pull) {
    WireLayout layout = pull.layout();
    List<TransferRegion> regions = new ArrayList<>(layout.regionCount());
    for (int i = 0; i < layout.regionCount(); i++) {
      regions.add(
          new TransferRegion(
              layout.layerName(i),
              layout.layerIndex(i),
              layout.baseAddress(i),
              layout.blockLen(i),
              layout.kvBlockLen(i),
              layout.groupIndex(i),
              layout.sharedGroupIds(i),
              layout.rowOffset(i),
              0));
    }
    return new PeerLayout(pull.remoteTpRank(), pull.remoteTpSize(), pull.remotePpSize(), regions);
  }
}
