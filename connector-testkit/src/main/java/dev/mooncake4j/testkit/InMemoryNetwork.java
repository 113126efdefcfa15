package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.EngineConfig;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.jspecify.annotations.Nullable;

/**
 * Where in-memory engines find one another by {@code host:port}. Thread-safe.
 *
 * <p>Networks know nothing of each other, so that tests do not meet.
 */
public final class InMemoryNetwork {
  private static final int FIRST_PORT = 15_000;

  private final Map<String, InMemoryTransferEngine> engines = new ConcurrentHashMap<>();
  private final AtomicInteger nextPort = new AtomicInteger(FIRST_PORT);

  /**
   * Held shared while bytes are copied, and alone while registrations change: nothing is copied to
   * or from memory whose registration has been given back. One lock for all engines, because two of
   * them that write to each other would wait in a circle on locks of their own.
   */
  final ReentrantReadWriteLock registrations = new ReentrantReadWriteLock();

  /** A network with no engines. */
  public InMemoryNetwork() {}

  /** Opens an engine without faults at a port of its own. */
  public InMemoryTransferEngine open(EngineConfig config) {
    return open(config, new FaultPlan());
  }

  /** Opens an engine at a port of its own. */
  public InMemoryTransferEngine open(EngineConfig config, FaultPlan faults) {
    return open(config, faults, nextPort.getAndIncrement());
  }

  /**
   * Opens an engine at a given port, as one that came back after a restart.
   *
   * @throws IllegalStateException if an engine is open there
   */
  public InMemoryTransferEngine open(EngineConfig config, FaultPlan faults, int port) {
    InMemoryTransferEngine engine = new InMemoryTransferEngine(this, config, faults, port);
    String address = HostAddresses.join(config.host(), port);
    if (engines.putIfAbsent(address, engine) != null) {
      throw new IllegalStateException("address=" + address + " is in use: close that engine first");
    }
    return engine;
  }

  /** The engine that is open at a {@code host:port}, or {@code null}. */
  public @Nullable InMemoryTransferEngine find(String address) {
    return engines.get(address);
  }

  /** Number of engines that are open. */
  public int size() {
    return engines.size();
  }

  void remove(String address, InMemoryTransferEngine engine) {
    engines.remove(address, engine);
  }
}
