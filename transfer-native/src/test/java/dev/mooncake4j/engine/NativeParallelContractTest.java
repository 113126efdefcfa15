package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;

/** The native engine keeps the contract with every write split over several threads. */
class NativeParallelContractTest extends NativeEngineContractTest {
  @Override
  protected TransferEngine open(EngineConfig config) {
    return Engines.openParallel(config, 4, 64);
  }
}
