package dev.mooncake4j.connector.spi;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.connector.TransferEngineException;

/** Makes transfer engines; found by {@link java.util.ServiceLoader}. Thread-safe. */
public interface TransferEngineProvider {
  /** A short name for logs: {@code native}, {@code in-memory}. */
  String name();

  /**
   * Starts an engine. Blocks while its library is opened, the first time.
   *
   * @throws EngineUnavailableException if there is no usable library
   * @throws TransferEngineException if the engine does not start; all that had started is undone
   */
  TransferEngine open(EngineConfig config);
}
