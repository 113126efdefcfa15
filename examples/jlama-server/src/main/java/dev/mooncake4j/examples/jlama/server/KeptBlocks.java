package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.Failure;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Blocks that no request uses any more, and that are not free: the connector's, until a result
 * names their request. For the engine's thread alone.
 */
final class KeptBlocks {
  private final BlockManager blocks;

  /** Of requests that are over: to be sent, or still being filled. */
  private final Map<String, int[]> held = new HashMap<>();

  /** Of loads that have failed, and that their prefiller may still write to. */
  private final Map<String, int[]> quarantined = new HashMap<>();

  KeptBlocks(BlockManager blocks) {
    this.blocks = blocks;
  }

  void hold(String requestId, int[] ids) {
    held.put(requestId, ids);
  }

  void quarantine(String requestId, int[] ids) {
    quarantined.put(requestId, ids);
  }

  /** The transfer of a request that is over has ended well. */
  void ended(String requestId) {
    release(held.remove(requestId));
  }

  /** That of a request that is over has failed. */
  void failed(Failure failure) {
    int[] ids = held.remove(failure.requestId());
    if (ids != null && !failure.quiet()) {
      quarantine(failure.requestId(), ids);
    } else {
      release(ids);
    }
  }

  /** Nobody writes to the blocks of this failure any more. */
  void quieted(Failure failure) {
    release(quarantined.remove(failure.requestId()));
  }

  private void release(int @Nullable [] ids) {
    if (ids != null) {
      blocks.release(ids);
    }
  }
}
