package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import org.junit.jupiter.api.Tag;

/** The contract, with every write split over several threads. */
@Tag(FakeEngine.TAG)
class ParallelContractFakeTest extends ContractFakeTest {
  @Override
  protected TransferEngine open(EngineConfig config) {
    return Engines.openParallel(config, 4, 64);
  }

  @Override
  boolean restsBeforeFree() {
    return false;
  }
}
