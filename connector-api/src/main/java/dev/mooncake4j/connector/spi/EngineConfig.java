package dev.mooncake4j.connector.spi;

import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What an engine is started with.
 *
 * @param host the address that peers reach this engine at; never a wildcard
 * @param protocol the transport asked for: {@code rdma}, {@code tcp}, …
 * @param deviceNames whitelist of RDMA devices; empty takes all
 * @param library the engine library's file, or {@code null} to search for one
 * @param clock the monotonic clock behind deadlines
 * @param threadStart runs on each thread of the engine's own that registers or moves memory, before
 *     it does; to bind a CUDA device to the thread, say
 */
public record EngineConfig(
    String host,
    String protocol,
    List<String> deviceNames,
    @Nullable Path library,
    NanoClock clock,
    Runnable threadStart) {

  /** Copies the list. */
  public EngineConfig {
    deviceNames = List.copyOf(deviceNames);
  }

  /** A configuration whose threads need no preparation. */
  public EngineConfig(
      String host,
      String protocol,
      List<String> deviceNames,
      @Nullable Path library,
      NanoClock clock) {
    this(host, protocol, deviceNames, library, clock, () -> {});
  }
}
