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
 */
public record EngineConfig(
    String host,
    String protocol,
    List<String> deviceNames,
    @Nullable Path library,
    NanoClock clock) {

  /** Copies the list. */
  public EngineConfig {
    deviceNames = List.copyOf(deviceNames);
  }
}
