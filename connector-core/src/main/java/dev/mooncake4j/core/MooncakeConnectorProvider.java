package dev.mooncake4j.core;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.spi.ConnectorProvider;

/** Provides {@value ConnectorConfig#MOONCAKE}. */
public final class MooncakeConnectorProvider implements ConnectorProvider {

  /** For {@link java.util.ServiceLoader}. */
  public MooncakeConnectorProvider() {}

  @Override
  public String name() {
    return ConnectorConfig.MOONCAKE;
  }

  @Override
  public KvConnector open(ConnectorConfig config, ConnectorHooks hooks) {
    return new MooncakeKvConnector(config, hooks);
  }
}
