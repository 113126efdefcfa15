package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import org.jspecify.annotations.Nullable;

/**
 * An engine that copies bytes between registered memory of one process.
 *
 * <p>It refuses what the native engine refuses: sources that are not registered here, destinations
 * that are not registered at the peer, peers that are closed or were replaced since they were first
 * written to, until they are forgotten. It needs {@code --enable-native-access} like the native
 * engine, because it copies between plain addresses. What else goes wrong is told by its {@link
 * FaultPlan}. Opened by an {@link InMemoryNetwork} or an {@link InMemoryTransferEngineProvider}.
 *
 * <p>Thread-safe; it has no threads of its own, and every write runs on its caller's.
 */
public final class InMemoryTransferEngine implements TransferEngine {
  private static final MemorySegment ALL_MEMORY = allMemory();

  private final InMemoryNetwork network;
  private final EngineConfig config;
  private final FaultPlan faults;
  private final int port;
  private final String address;
  private final Lock copying;
  private final Lock changing;
  private final Registrations registered = new Registrations();
  private final Map<String, InMemoryTransferEngine> peers = new ConcurrentHashMap<>();
  private final AtomicInteger liveBatches = new AtomicInteger();
  private final AtomicInteger inFlight = new AtomicInteger();
  private final List<Write> writes = new ArrayList<>();
  private volatile boolean closed;

  InMemoryTransferEngine(InMemoryNetwork network, EngineConfig config, FaultPlan faults, int port) {
    this.network = network;
    this.config = config;
    this.faults = faults;
    this.port = port;
    this.address = HostAddresses.join(config.host(), port);
    this.copying = network.registrations.readLock();
    this.changing = network.registrations.writeLock();
  }

  /**
   * A write that has returned.
   *
   * @param peer the peer's {@code host:port}
   * @param descriptors how many it had
   * @param bytes the sum of their lengths
   * @param status how it ended
   */
  public record Write(String peer, int descriptors, long bytes, WriteResult.Status status) {}

  // Restricted: the engine's interface has plain addresses, and every one is checked against the
  // registrations before it is used.
  @SuppressWarnings("restricted")
  private static MemorySegment allMemory() {
    return MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
  }

  /** This engine's {@code host:port}. */
  public String address() {
    return address;
  }

  /** What goes wrong in this engine. */
  public FaultPlan faults() {
    return faults;
  }

  /** The configuration that it was opened with. */
  public EngineConfig config() {
    return config;
  }

  /** Whether it is closed. */
  public boolean isClosed() {
    return closed;
  }

  /** Every write that has returned, in the order in which they did. */
  public List<Write> writes() {
    synchronized (writes) {
      return List.copyOf(writes);
    }
  }

  @Override
  public String host() {
    return config.host();
  }

  @Override
  public int port() {
    return port;
  }

  @Override
  public String transport() {
    return "in-memory";
  }

  @Override
  public boolean completionProvesArrival() {
    return !faults.arrivalUnproven();
  }

  @Override
  public void register(List<MemoryRange> ranges) {
    changing.lock();
    try {
      requireOpen();
      int refused = faults.takeRefusal(ranges.size());
      List<MemoryRange> done = new ArrayList<>();
      try {
        for (int i = 0; i < ranges.size(); i++) {
          if (i == refused) {
            throw new TransferEngineException(
                "register", -1, ranges.get(i) + " is refused as the fault plan asked", null);
          }
          registered.add(ranges.get(i));
          done.add(ranges.get(i));
        }
      } catch (TransferEngineException e) {
        done.forEach(registered::remove);
        throw e;
      }
    } finally {
      changing.unlock();
    }
  }

  @Override
  public void unregister(List<MemoryRange> ranges) {
    changing.lock();
    try {
      requireOpen();
      List<MemoryRange> unknown = new ArrayList<>();
      for (MemoryRange range : ranges) {
        if (!registered.remove(range)) {
          unknown.add(range);
        }
      }
      if (!unknown.isEmpty()) {
        throw new TransferEngineException(
            "unregister", -1, "ranges=" + unknown + " are not registered", null);
      }
    } finally {
      changing.unlock();
    }
  }

  @Override
  public WriteResult write(String peer, DescriptorList descriptors, long timeoutNanos) {
    requireOpen();
    if (timeoutNanos <= 0) {
      throw new IllegalArgumentException("timeout_nanos=" + timeoutNanos + " is not more than 0");
    }
    if (descriptors.size() == 0) {
      return WriteResult.completed();
    }
    WriteResult result = begin(peer, Copies.of(descriptors), timeoutNanos);
    synchronized (writes) {
      writes.add(new Write(peer, descriptors.size(), descriptors.bytes(), result.status()));
    }
    return result;
  }

  private WriteResult begin(String peer, Copies copies, long timeoutNanos) {
    long start = config.clock().nanoTime();
    liveBatches.incrementAndGet();
    inFlight.addAndGet(copies.size());
    boolean quiet = true;
    try {
      FaultPlan.WriteFault fault = faults.takeWriteFault();
      long delay = faults.delay().toNanos();
      if (delay > 0) {
        FaultPlan.Held expired = hold(peer, copies, 0, start, timeoutNanos, delay);
        if (expired != null) {
          quiet = false;
          return timedOut(peer, expired, timeoutNanos);
        }
      }
      int first = fault == null ? copies.size() : Math.min(fault.written(), copies.size());
      String problem = copy(peer, copies, 0, first);
      if (problem != null || fault == null) {
        return problem == null ? WriteResult.completed() : WriteResult.failed(problem);
      }
      if (fault.failure() != null) {
        return WriteResult.failed(fault.failure());
      }
      FaultPlan.Held expired = hold(peer, copies, first, start, timeoutNanos, -1);
      if (expired != null) {
        quiet = false;
        return timedOut(peer, expired, timeoutNanos);
      }
      problem = copy(peer, copies, first, copies.size());
      return problem == null ? WriteResult.completed() : WriteResult.failed(problem);
    } finally {
      if (quiet) {
        ended(copies);
      }
    }
  }

  private FaultPlan.@Nullable Held hold(
      String peer, Copies copies, int from, long start, long timeoutNanos, long goOn) {
    return faults.hold(
        config.clock(),
        start,
        timeoutNanos,
        goOn,
        () -> closed,
        write -> {
          if (write) {
            // Whatever it says, this write has long been reported.
            copy(peer, copies, from, copies.size());
          }
          ended(copies);
        });
  }

  private static WriteResult timedOut(String peer, FaultPlan.Held expired, long timeoutNanos) {
    return WriteResult.timedOut(
        "peer=" + peer + " timeout_nanos=" + timeoutNanos + ": the write is not done",
        expired.quiet.minimalCompletionStage());
  }

  private void ended(Copies copies) {
    inFlight.addAndGet(-copies.size());
    liveBatches.decrementAndGet();
  }

  /** Copies a part of the descriptors; returns what is wrong with them, or {@code null}. */
  private @Nullable String copy(String peer, Copies copies, int from, int to) {
    copying.lock();
    try {
      if (faults.isUnreachable(peer)) {
        return "peer=" + peer + " cannot be reached: is it running?";
      }
      String problem = registered.findMissing(copies, Copies.Side.SOURCE);
      if (problem != null) {
        return problem + " is not registered here: register it first";
      }
      InMemoryTransferEngine target = peers.get(peer);
      if (target == null) {
        target = network.find(peer);
        if (target == null) {
          return "peer=" + peer + " cannot be reached: is it running?";
        }
        peers.put(peer, target);
      }
      if (target.closed) {
        return "peer=" + peer + " has gone: forget it if it has come back";
      }
      for (int i = from; i < to; i++) {
        if (!target.registered.covers(copies.destination(i), copies.length(i))) {
          return copies.describe(i, Copies.Side.DESTINATION) + " is not registered at peer=" + peer;
        }
        MemorySegment.copy(
            ALL_MEMORY, copies.source(i), ALL_MEMORY, copies.destination(i), copies.length(i));
      }
      return null;
    } finally {
      copying.unlock();
    }
  }

  @Override
  public void forgetPeer(String peer) {
    requireOpen();
    peers.remove(peer);
  }

  @Override
  public EngineStats stats() {
    copying.lock();
    try {
      return new EngineStats(
          liveBatches.get(), inFlight.get(), registered.count(), registered.bytes());
    } finally {
      copying.unlock();
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>Writes that hang return {@code TIMED_OUT} and are not quiet until the plan ends them.
   */
  @Override
  public void close() {
    changing.lock();
    try {
      closed = true;
      registered.clear();
      network.remove(address, this);
    } finally {
      changing.unlock();
    }
  }

  private void requireOpen() {
    if (closed) {
      throw new IllegalStateException("engine=" + address + " is closed: open another");
    }
  }
}
