package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Opens in-memory engines on one network, with one plan of faults for all of them. Thread-safe.
 *
 * <p>Not found by {@link java.util.ServiceLoader}: it is made with the network that it serves.
 */
public final class InMemoryTransferEngineProvider implements TransferEngineProvider {
  private final InMemoryNetwork network;
  private final FaultPlan faults;
  private final List<InMemoryTransferEngine> opened = new CopyOnWriteArrayList<>();

  /** Opens engines without faults, until its plan is told otherwise. */
  public InMemoryTransferEngineProvider(InMemoryNetwork network) {
    this(network, new FaultPlan());
  }

  /** Opens engines with these faults. */
  public InMemoryTransferEngineProvider(InMemoryNetwork network, FaultPlan faults) {
    this.network = network;
    this.faults = faults;
  }

  @Override
  public String name() {
    return "in-memory";
  }

  @Override
  public TransferEngine open(EngineConfig config) {
    KvConnectorException refusal = faults.takeOpenFailure();
    if (refusal != null) {
      throw refusal;
    }
    InMemoryTransferEngine engine = network.open(config, faults);
    opened.add(engine);
    return engine;
  }

  /** What goes wrong in the engines opened here. */
  public FaultPlan faults() {
    return faults;
  }

  /** Every engine opened here, the oldest first; closed ones too. */
  public List<InMemoryTransferEngine> opened() {
    return List.copyOf(opened);
  }
}
