package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.testkit.TransferEngineContract;
import org.junit.jupiter.api.BeforeAll;

/** The native engine over tcp on loopback keeps the contract. */
class NativeEngineContractTest extends TransferEngineContract {

  @BeforeAll
  static void engineIsThere() {
    Engines.require();
  }

  @Override
  protected TransferEngine open(EngineConfig config) {
    return new NativeTransferEngineProvider().open(config);
  }
}
