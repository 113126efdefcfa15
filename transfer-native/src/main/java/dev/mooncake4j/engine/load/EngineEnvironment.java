package dev.mooncake4j.engine.load;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The variables that the engine reads with {@code getenv}, and what the connector wants them to be.
 *
 * <p>Set in the process before the first engine, since some are read once; what the user has set is
 * never changed.
 */
final class EngineEnvironment {
  /** Non-empty where the engine is to use IPv6 sockets; then it uses no others. */
  static final String IPV6 = "MC_USE_IPV6";

  private EngineEnvironment() {}

  /** Sets what is not set; the variables that were set now. */
  static Map<String, String> apply(DynamicLinker linker, boolean ipv6) {
    Map<String, String> set = new LinkedHashMap<>();
    // Over these limits the tcp transport rejects whole batches, and the two processes may never
    // move anything again. Ours is far below (see InFlightLimit); these are the second line.
    put(linker, set, "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", "65535");
    put(linker, set, "MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER", "65535");
    put(linker, set, "MC_TCP_ADMISSION_TIMEOUT_MS", "60000");
    // Where a peer stands still the engine drops the connection after 30 s and calls the write
    // failed, though bytes in the peer's socket are still written when it goes on: a failed write
    // would not be quiet. The connector's own deadline ends the waiting, and quiet is when the
    // connection has ended.
    put(linker, set, "MC_TCP_PROGRESS_TIMEOUT_SEC", "86400");
    put(linker, set, "MC_TCP_STATUS_TIMEOUT_SEC", "86400");
    // Releases before 0.3.13 open a connection for each descriptor unless told: a hundred times
    // slower in 0.3.12.
    put(linker, set, "MC_TCP_ENABLE_CONNECTION_POOL", "1");
    // One copy at a time is under way on a lane, and the next one waits for its acknowledgement:
    // more
    // lanes keep the engine's one thread busy. The engine has 4, and takes at most 16.
    if (linker.environment("MC_TCP_MAX_CONNECTIONS_PER_PEER") == null) {
      // That is the older name of the same setting.
      put(linker, set, "MC_TCP_LANES_PER_PEER", "16");
    }
    // Each slice of a large copy is a turn of the engine's event loop; the default is 64 KiB.
    put(linker, set, "MC_TCP_SLICE_SIZE", "1048576");
    put(linker, set, "MC_LOG_LEVEL", "ERROR");
    if (ipv6) {
      put(linker, set, IPV6, "1");
    }
    return set;
  }

  private static void put(
      DynamicLinker linker, Map<String, String> set, String name, String value) {
    if (linker.setEnvironmentDefault(name, value)) {
      set.put(name, value);
    }
  }
}
