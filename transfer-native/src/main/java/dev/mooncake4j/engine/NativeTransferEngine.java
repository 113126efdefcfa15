package dev.mooncake4j.engine;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.engine.load.EngineLibrary;
import dev.mooncake4j.engine.load.OwnThread;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The native engine behind the connector's interface.
 *
 * <p>It has one thread of its own while nothing is wrong, for {@link RetiredBatches}, and those of
 * {@link SubmitLanes} where the transport wants them: writes run on their callers' threads, a peer
 * is opened on a thread that ends with it, and a reaper lives while some write has run out of time
 * and is not yet quiet. The native library has threads beside these.
 */
final class NativeTransferEngine implements TransferEngine {
  private static final Logger LOG = LoggerFactory.getLogger(NativeTransferEngine.class);

  /** How long close waits for what is under way. */
  private static final long DRAIN_NANOS = EngineCore.CLOSE_PATIENCE_NANOS + 1_000_000_000L;

  private final EngineCore core;
  private final String host;
  private final int port;
  private final String transport;
  private final boolean provesArrival;
  private final MemoryRegistry registry;
  private final BatchReaper reaper;
  private final Runnable threadStart;
  private final SubmitLanes lanes;
  private final RequestBuffers buffers;
  private final Map<String, Peer> peers = new ConcurrentHashMap<>();
  private final AtomicBoolean closeBegun = new AtomicBoolean();
  private final CountDownLatch closed = new CountDownLatch(1);

  private NativeTransferEngine(
      EngineLibrary library,
      EngineConfig config,
      EngineStart start,
      SubmitLanes.Settings settings) {
    this.host = config.host();
    this.port = start.port();
    this.transport = start.transport();
    this.provesArrival = !transport.equals(EngineStart.TCP) || library.acknowledgesTcp();
    this.core =
        new EngineCore(library, start.handle(), config.clock(), HostAddresses.join(host, port));
    this.registry = new MemoryRegistry(library, start.handle());
    this.reaper = new BatchReaper(core);
    this.threadStart = config.threadStart();
    this.lanes = new SubmitLanes(settings, threadStart);
    this.buffers = new RequestBuffers(Math.max(WriteOperation.WINDOW, settings.window()));
  }

  static NativeTransferEngine open(EngineLibrary library, EngineConfig config) {
    EngineStart start = EngineStart.start(library, config);
    return open(library, config, start, SubmitLanes.Settings.of(start.transport()));
  }

  /** {@link #open(EngineLibrary, EngineConfig)} with writes split as told. */
  static NativeTransferEngine open(
      EngineLibrary library,
      EngineConfig config,
      EngineStart start,
      SubmitLanes.Settings settings) {
    NativeTransferEngine engine = new NativeTransferEngine(library, config, start, settings);
    LOG.info(
        "engine={} transport={} completion_proves_arrival={} library={}",
        engine.core.address,
        engine.transport,
        engine.provesArrival,
        library.file());
    if (!engine.provesArrival) {
      LOG.warn(
          "engine={}: a completed write says only that its bytes were sent, because MC_TCP_PROTO=1"
              + " is set or the library is older than acknowledged writes (0.3.12)",
          engine.core.address);
    }
    return engine;
  }

  @Override
  public String host() {
    return host;
  }

  @Override
  public int port() {
    return port;
  }

  @Override
  public String transport() {
    return transport;
  }

  /**
   * {@inheritDoc}
   *
   * <p>With tcp it holds where this side and the peer speak version 2 of the engine's protocol,
   * which this side does unless {@code MC_TCP_PROTO=1} is in the environment.
   */
  @Override
  public boolean completionProvesArrival() {
    return provesArrival;
  }

  @Override
  public void register(List<MemoryRange> ranges) {
    core.enter();
    try {
      onOwnThread("m4j-engine-register", () -> registry.register(ranges));
    } finally {
      core.exit();
    }
  }

  @Override
  public void unregister(List<MemoryRange> ranges) {
    core.enter();
    try {
      onOwnThread("m4j-engine-unregister", () -> registry.unregister(ranges));
    } finally {
      core.exit();
    }
  }

  /** Runs what needs a native thread that is prepared as the user's hook wants it. */
  private void onOwnThread(String name, Runnable action) {
    OwnThread.run(
        name,
        () -> {
          threadStart.run();
          action.run();
        });
  }

  @Override
  public WriteResult write(String peerAddress, DescriptorList descriptors, long timeoutNanos) {
    if (timeoutNanos <= 0) {
      throw new IllegalArgumentException("timeout_nanos=" + timeoutNanos + " is not more than 0");
    }
    core.enter();
    try {
      if (descriptors.size() == 0) {
        return WriteResult.completed();
      }
      long start = core.clock.nanoTime();
      String name = nameOf(peerAddress);
      if (name == null) {
        return WriteResult.failed("peer=" + peerAddress + " is not host:port");
      }
      String refused = refusal(descriptors);
      if (refused != null) {
        return WriteResult.failed("peer=" + name + ": " + refused);
      }
      Peer peer = peers.computeIfAbsent(name, key -> new Peer(core, key, limit()));
      return write(peer, descriptors, start, start + timeoutNanos);
    } finally {
      core.exit();
    }
  }

  private WriteResult write(Peer peer, DescriptorList descriptors, long start, long deadline) {
    int segment;
    try {
      segment = peer.acquire(deadline);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return WriteResult.failed("peer=" + peer.name + ": interrupted before anything was written");
    }
    if (segment == Peer.NOT_IN_TIME) {
      return WriteResult.timedOut(
          "peer="
              + peer.name
              + " has not answered in "
              + (core.clock.nanoTime() - start) / 1_000_000
              + " ms; nothing was written",
          CompletableFuture.completedStage(null));
    }
    if (segment < 0) {
      return WriteResult.failed(
          "peer="
              + peer.name
              + (segment == Peer.CLOSING
                  ? ": the engine is closing"
                  : " cannot be reached: is its engine running?"));
    }
    try {
      WriteResult result =
          lanes.settings().split()
              ? new ParallelWrite(
                      core, reaper, peer, descriptors, buffers, lanes, segment, start, deadline)
                  .run()
              : writeAlone(peer, descriptors, segment, start, deadline);
      if (!result.isCompleted()) {
        // It may have come back elsewhere, or registered more: the next write asks it again.
        peer.forget();
      }
      return result;
    } finally {
      peer.release();
    }
  }

  private WriteResult writeAlone(
      Peer peer, DescriptorList descriptors, int segment, long start, long deadline) {
    RequestBuffers.Buffer buffer = buffers.take();
    try {
      return new WriteOperation(core, reaper, peer, descriptors, buffer, segment, start, deadline)
          .run();
    } finally {
      buffers.giveBack(buffer);
    }
  }

  /** Descriptors that one peer is given at once: tcp has a limit that must never be reached. */
  private int limit() {
    return transport.equals(EngineStart.TCP) || !lanes.settings().split()
        ? InFlightLimit.DESCRIPTORS
        : InFlightLimit.UNLIMITED;
  }

  /** The name that the engine knows a peer by, or {@code null} if it is none. */
  private static @Nullable String nameOf(String peerAddress) {
    try {
      return HostAddresses.join(
          HostAddresses.hostOf(peerAddress), HostAddresses.portOf(peerAddress));
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  /** What is wrong with the descriptors, or {@code null}; nothing unchecked reaches the engine. */
  private @Nullable String refusal(DescriptorList list) {
    MemoryRegistry.Ranges ranges = registry.ranges();
    int in = -1;
    int size = list.size();
    for (int i = 0; i < size; i++) {
      long source = list.source(i);
      long destination = list.destination(i);
      long length = list.length(i);
      if (length < 1 || destination <= 0 || destination + length < 0) {
        return Batch.described(list, i)
            + ": a length is at least 1, and a destination lies between 1 and 2^63";
      }
      if (in < 0 || !ranges.holds(in, source, length)) {
        in = ranges.find(source, length);
        if (in < 0) {
          return Batch.described(list, i)
              + ": its source is not inside one registered range; registered_ranges="
              + ranges.count();
        }
      }
    }
    return null;
  }

  @Override
  public void forgetPeer(String peerAddress) {
    core.enter();
    try {
      String name = nameOf(peerAddress);
      Peer peer = name == null ? null : peers.get(name);
      if (peer != null) {
        peer.forget();
      }
    } finally {
      core.exit();
    }
  }

  @Override
  public EngineStats stats() {
    MemoryRegistry.Ranges ranges = registry.ranges();
    return new EngineStats(
        core.liveBatches.get(), core.descriptorsInFlight.get(), ranges.count(), ranges.bytes());
  }

  /**
   * {@inheritDoc}
   *
   * <p>Takes up to 3 seconds where something is under way. What has not ended by then is still
   * watched: the registrations are given back and the native engine is destroyed when it ends, and
   * until then {@link #stats} counts it and the memory must not be freed.
   */
  @Override
  public void close() {
    if (closeBegun.compareAndSet(false, true)) {
      core.beginClose();
      peers.values().forEach(peer -> peer.limit.open());
      OwnThread.run("m4j-engine-close", this::drainAndRelease);
      return;
    }
    try {
      // Somebody else closes; it is bounded there, and not waited for longer than that.
      boolean done = closed.await(2 * DRAIN_NANOS, TimeUnit.NANOSECONDS);
      LOG.debug("engine={} closed by another thread, done={}", core.address, done);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void drainAndRelease() {
    boolean interrupted = false;
    boolean alone = false;
    boolean quiet = false;
    long end = System.nanoTime() + DRAIN_NANOS;
    while (!quiet && end - System.nanoTime() > 0) {
      try {
        alone =
            alone || core.use.writeLock().tryLock(end - System.nanoTime(), TimeUnit.NANOSECONDS);
        quiet = alone && reaper.awaitEmpty(end - System.nanoTime());
      } catch (InterruptedException e) {
        // Bounded anyway; the interrupt is handed on afterwards.
        interrupted = true;
      }
    }
    if (quiet) {
      release();
    } else {
      if (alone) {
        // For the thread that comes now; nobody else enters any more.
        core.use.writeLock().unlock();
      }
      LOG.warn(
          "engine={} batches={} descriptors={} have not ended: the native engine and its"
              + " registrations are kept until they do; the memory must not be freed",
          core.address,
          core.liveBatches.get(),
          core.descriptorsInFlight.get());
      Thread.ofPlatform().daemon().name("m4j-engine-late-close").start(this::releaseLate);
    }
    closed.countDown();
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void releaseLate() {
    core.use.writeLock().lock();
    try {
      reaper.awaitEmpty();
      release();
      LOG.info("engine={} is released after all", core.address);
    } catch (InterruptedException e) {
      // Nobody knows this thread; if it is ended all the same, the engine is leaked as announced.
      Thread.currentThread().interrupt();
    }
  }

  /** With nobody using the engine, and nobody to come. */
  private void release() {
    core.retired.close();
    try {
      registry.unregisterAll();
    } catch (RuntimeException e) {
      LOG.warn("engine={} does not give its registrations back", core.address, e);
    }
    core.library.destroy(core.handle);
    // Their streams go with them, and by now nobody asks for a copy on one.
    lanes.close();
    buffers.close();
  }
}
