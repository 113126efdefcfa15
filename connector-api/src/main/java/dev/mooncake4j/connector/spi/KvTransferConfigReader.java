package dev.mooncake4j.connector.spi;

import dev.mooncake4j.connector.ConnectorConfig;
import java.util.List;

/**
 * Reads vLLM's {@code --kv-transfer-config} JSON; found by {@link java.util.ServiceLoader}. Apart
 * from the API, so that the API needs no JSON library.
 */
public interface KvTransferConfigReader {
  /**
   * Puts what the JSON says into a builder; unknown keys warn and are kept.
   *
   * @return every problem found, empty if none; a problem with a value starts with {@code key=},
   *     one with the whole JSON with {@code kv_transfer_config}. Never throws for bad input
   */
  List<String> read(String json, ConnectorConfig.Builder into);
}
