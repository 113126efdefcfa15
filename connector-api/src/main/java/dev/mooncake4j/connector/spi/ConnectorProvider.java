package dev.mooncake4j.connector.spi;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.KvConnector;

/** Makes a connector; found by {@link java.util.ServiceLoader} under its name. */
public interface ConnectorProvider {
  /** The value of {@code kv_connector} that selects it. */
  String name();

  /** Opens a connector; starts nothing yet. */
  KvConnector open(ConnectorConfig config, ConnectorHooks hooks);
}
