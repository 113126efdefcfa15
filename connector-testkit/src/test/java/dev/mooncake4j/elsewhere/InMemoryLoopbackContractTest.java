package dev.mooncake4j.elsewhere;

import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.testkit.FaultPlan;
import dev.mooncake4j.testkit.InMemoryNetwork;
import dev.mooncake4j.testkit.TransferEngineContract;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The contract with engines that cannot reach one another, so that each writes to itself; from
 * another package, as a user's.
 */
class InMemoryLoopbackContractTest extends TransferEngineContract {
  private final AtomicInteger nextPort = new AtomicInteger(20_000);

  @Override
  protected TransferEngine open(EngineConfig config) {
    // A network of its own, so that a test that relied on a second engine would fail.
    return new InMemoryNetwork().open(config, new FaultPlan(), nextPort.getAndIncrement());
  }

  @Override
  protected boolean supportsTwoEnginesInOneProcess() {
    return false;
  }
}
