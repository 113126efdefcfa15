package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;

class InMemoryTransferEngineContractTest extends TransferEngineContract {
  private final InMemoryNetwork network = new InMemoryNetwork();

  @Override
  protected TransferEngine open(EngineConfig config) {
    return network.open(config);
  }

  @Override
  protected TransferEngine reopenAt(EngineConfig config, int port) {
    return network.open(config, new FaultPlan(), port);
  }
}
