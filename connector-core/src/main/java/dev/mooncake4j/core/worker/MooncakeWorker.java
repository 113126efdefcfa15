package dev.mooncake4j.core.worker;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.WorkerStats;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.consumer.Consumer;
import dev.mooncake4j.core.consumer.LocalEngine;
import dev.mooncake4j.core.discovery.AllowedHosts;
import dev.mooncake4j.core.discovery.Bootstrap;
import dev.mooncake4j.core.discovery.PrefillerDirectory;
import dev.mooncake4j.core.discovery.RankRegistration;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.producer.EngineThreads;
import dev.mooncake4j.core.producer.Producer;
import dev.mooncake4j.core.results.ResultQueue;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One rank's worker: opens and closes its parts in order, and passes everything else to its loop.
 *
 * <p>The lifecycle (register, unregister, restore, close) is guarded by one lock; the state of
 * requests is the loop's alone. Longer than most classes, since the order in which parts start, are
 * undone and close is best read in one place.
 */
public final class MooncakeWorker implements KvWorker {
  private static final Logger LOG = LoggerFactory.getLogger(MooncakeWorker.class);

  private static final long CALL_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final long STATS_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** How long sleep mode waits for transfers under way. */
  private static final long DRAIN_NANOS = TimeUnit.SECONDS.toNanos(60);

  /** How long close() waits for engine threads: they end with the write they are at. */
  private static final long CLOSE_POOL_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** How long close() waits for the loop, and for a registration that has just begun anew. */
  private static final long WATCH_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** How long close() waits until prefillers have heard that their transfers are let go. */
  private static final long FAREWELL_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  private static final long CLOSE_LOOP_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** How often reports that are due are looked for, so that a burst is told though none follows. */
  private static final long REPORT_NANOS = TimeUnit.SECONDS.toNanos(2);

  private final ConnectorConfig config;
  private final ConnectorHooks hooks;
  private final RankLayout rank;
  private final TransferEngine engine;
  private final RegistrationPlace place;
  private final Runnable report;
  private final RankRegistrar registrar;
  private final Runnable onClosed;
  private final TransferListener listener;
  private final ResultQueue results;
  private final SideChannel channel;
  private final @Nullable Producer producer;
  private final @Nullable Consumer consumer;
  private final ThreadPoolExecutor reader;
  private final WorkerLoop loop;
  private final EventLoop events;
  private final RegistrationWatch watch;
  private final SecureRandom random = new SecureRandom();
  private final AtomicBoolean closed = new AtomicBoolean();
  private final Closing closing = new Closing();

  private final ReentrantLock lifecycle = new ReentrantLock();
  private @Nullable KvCacheLayout layout;
  private boolean registered;
  private volatile @Nullable EngineThreads threads;
  private @Nullable Integer boundPort;
  private volatile WorkerStats lastStats = new WorkerStats(0, 0, 0, 0, 0, 0, 0, 0);

  /**
   * A worker around an engine and a side channel, both of which it owns from now on.
   *
   * @param place where a prefiller rank registers
   * @param report runs on the loop every other second, and must return at once
   * @param onClosed runs once when the worker has closed
   */
  public MooncakeWorker(
      ConnectorConfig config,
      ConnectorHooks hooks,
      RankLayout rank,
      TransferEngine engine,
      SideChannel channel,
      Bootstrap bootstrap,
      RegistrationPlace place,
      TransferListener listener,
      Runnable report,
      Runnable onClosed) {
    this.config = config;
    this.hooks = hooks;
    this.rank = rank;
    this.engine = engine;
    this.channel = channel;
    this.place = place;
    this.registrar = new RankRegistrar(bootstrap, place.address());
    this.listener = listener;
    this.report = report;
    this.onClosed = onClosed;
    this.results = new ResultQueue(hooks.resultsReady());
    this.events = new EventLoop(hooks.clock());
    this.watch = new RegistrationWatch(events, bootstrap, place.address());
    this.producer =
        config.role().isProducer()
            ? new Producer(
                events,
                rank,
                new Producer.Settings(
                    config.abortRequestTimeout(),
                    config.leaseDuration(),
                    config.kvCacheFingerprint(),
                    AllowedHosts.of("peer_allowed_hosts", config.peerAllowedHosts())),
                channel::reply,
                results,
                listener)
            : null;
    this.reader = ArrivedReader.start("tp" + rank.tpRank());
    this.consumer =
        config.role().isConsumer()
            ? new Consumer(
                events,
                rank,
                config,
                new PrefillerDirectory(events, bootstrap),
                channel,
                results,
                listener,
                reader)
            : null;
    this.loop = new WorkerLoop(events, channel, producer, consumer);
    events.schedule(REPORT_NANOS, this::reportAndAgain);
    loop.start(config.engineId() + "-tp" + rank.tpRank() + "-pp" + rank.ppRank());
    listener.workerOpened(config.engineId());
  }

  private void reportAndAgain() {
    events.schedule(REPORT_NANOS, this::reportAndAgain);
    report.run();
  }

  @Override
  public RankLayout rank() {
    return rank;
  }

  @Override
  public void registerKvCaches(KvCacheLayout cacheLayout) {
    lifecycle.lock();
    try {
      ensureOpen();
      if (registered) {
        throw new KvConnectorException(
            "kv caches are registered already: call unregisterKvCaches first");
      }
      register(cacheLayout);
      layout = cacheLayout;
    } finally {
      lifecycle.unlock();
    }
  }

  private void register(KvCacheLayout cacheLayout) {
    LocalCache cache = LocalCaches.cache(cacheLayout, rank, config.cacheSpec());
    List<MemoryRange> ranges = LocalCaches.ranges(cacheLayout);
    HostMemory readable = HostMemory.of(cacheLayout.memories());
    if (consumer != null && config.integrityCheck()) {
      LocalCaches.checkReadable(cacheLayout, readable);
    }
    engine.register(ranges);
    try {
      if (producer != null) {
        attachProducer(producer, cache, readable);
      }
      Consumer decoder = consumer;
      if (decoder != null) {
        LocalEngine local =
            new LocalEngine(
                HostAddresses.bare(engine.host()),
                engine.port(),
                cache,
                LocalCaches.wire(cache),
                LayoutId.draw(random),
                readable);
        onLoop("attach the kv caches", () -> decoder.attach(local));
      }
      registered = true;
    } catch (RuntimeException e) {
      undo(ranges, e);
      throw e;
    }
  }

  private void attachProducer(Producer prefiller, LocalCache cache, HostMemory readable) {
    EngineThreads engineThreads = threads;
    if (engineThreads == null) {
      engineThreads =
          EngineThreads.start(
              engine,
              hooks.clock(),
              config.numWorkers(),
              "tp" + rank.tpRank(),
              hooks.engineThreadStart());
      threads = engineThreads;
    }
    EngineThreads attached = engineThreads;
    onLoop("attach the kv caches", () -> attached.attach(prefiller, cache, readable));
    if (!registrar.isRegistered()) {
      RankRegistration mine =
          new RankRegistration(
              config.engineId(),
              rank.dpRank(),
              rank.tpRank(),
              rank.ppRank(),
              "tcp://" + HostAddresses.join(config.host(), bind()));
      registrar.register(mine);
      LOG.info(
          "prefiller rank registered engine_id={} dp_rank={} tp_rank={} pp_rank={} addr={} at={}",
          mine.engineId(),
          mine.dpRank(),
          mine.tpRank(),
          mine.ppRank(),
          mine.address(),
          place.address());
      if (!place.ownProcess()) {
        events.post(() -> watch.begin(mine));
      }
    }
  }

  /** Binds the side channel, once: a registration that failed may be tried again. */
  private int bind() {
    Integer port = boundPort;
    if (port == null) {
      port = loop.call("bind the side channel", CALL_NANOS, () -> channel.bind(config.host()));
      boundPort = port;
    }
    return port;
  }

  private void undo(List<MemoryRange> ranges, RuntimeException cause) {
    try {
      detach();
    } catch (RuntimeException e) {
      cause.addSuppressed(e);
    }
    try {
      engine.unregister(ranges);
    } catch (RuntimeException e) {
      cause.addSuppressed(e);
    }
  }

  private void detach() {
    onLoop(
        "detach the kv caches",
        () -> {
          if (producer != null) {
            producer.detach();
          }
          if (consumer != null) {
            consumer.detach();
          }
        });
  }

  private void onLoop(String what, Runnable action) {
    loop.<@Nullable Void>call(
        what,
        CALL_NANOS,
        () -> {
          action.run();
          return null;
        });
  }

  @Override
  public void startStep(StepPlan plan) {
    ensureOpen();
    ensureAlive();
    if (plan.isEmpty()) {
      return;
    }
    events.post(
        () -> {
          if (producer != null) {
            producer.step(plan);
          }
          if (consumer != null) {
            consumer.step(plan);
          }
        });
  }

  @Override
  public StepResult poll() {
    return results.take();
  }

  @Override
  public StepResult await(Duration timeout) throws InterruptedException {
    return results.await(timeout.toNanos());
  }

  @Override
  public void release(String transferId) {
    ensureOpen();
    ensureAlive();
    events.post(
        () -> {
          if (producer != null) {
            producer.release(transferId);
          }
          if (consumer != null) {
            consumer.release(transferId);
          }
        });
  }

  @Override
  public void unregisterKvCaches() {
    lifecycle.lock();
    try {
      ensureOpen();
      KvCacheLayout current = layout;
      if (current == null || !registered) {
        throw new KvConnectorException("no kv caches are registered: nothing to give back");
      }
      detach();
      drain();
      engine.unregister(LocalCaches.ranges(current));
      registered = false;
    } finally {
      lifecycle.unlock();
    }
  }

  /** Waits until no transfer reads or writes our memory. */
  private void drain() {
    CompletableFuture<@Nullable Void> quiet = new CompletableFuture<>();
    events.post(() -> checkQuiet(quiet));
    try {
      quiet.get(DRAIN_NANOS, TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new KvConnectorException("interrupted while transfers were drained", e);
    } catch (ExecutionException e) {
      throw new KvConnectorException("the worker was closed while transfers were drained", e);
    } catch (TimeoutException e) {
      throw new KvConnectorException(
          "transfers are still under way, "
              + stats()
              + ": the memory stays registered, try again later",
          e);
    } finally {
      quiet.cancel(false);
    }
  }

  private void checkQuiet(CompletableFuture<@Nullable Void> quiet) {
    if (quiet.isDone()) {
      return;
    }
    if (closed.get()) {
      quiet.completeExceptionally(new IllegalStateException("worker is closed"));
      return;
    }
    EngineThreads engineThreads = threads;
    boolean writing = engineThreads != null && engineThreads.pending() > 0;
    boolean receiving = consumer != null && consumer.pulls() > 0;
    if (!writing && !receiving) {
      quiet.complete(null);
    } else {
      events.schedule(TimeUnit.MILLISECONDS.toNanos(5), () -> checkQuiet(quiet));
    }
  }

  @Override
  public void restoreKvCaches() {
    lifecycle.lock();
    try {
      ensureOpen();
      KvCacheLayout current = layout;
      if (current == null || registered) {
        throw new KvConnectorException(
            "no kv caches were given back: restoreKvCaches follows unregisterKvCaches");
      }
      register(current);
    } finally {
      lifecycle.unlock();
    }
  }

  @Override
  public String transport() {
    return engine.transport();
  }

  @Override
  public boolean isHealthy() {
    return !closed.get() && loop.isHealthy();
  }

  @Override
  public WorkerStats stats() {
    if (!isHealthy()) {
      return lastStats;
    }
    try {
      WorkerStats now = loop.call("read its figures", STATS_NANOS, this::readStats);
      lastStats = now;
      return now;
    } catch (KvConnectorException e) {
      LOG.debug("figures are those of the last reading", e);
      return lastStats;
    }
  }

  private WorkerStats readStats() {
    EngineStats figures = engine.stats();
    EngineThreads engineThreads = threads;
    return new WorkerStats(
        consumer == null ? 0 : consumer.pulls(),
        producer == null ? 0 : producer.sends(),
        producer == null ? 0 : producer.waitingPulls(),
        (producer == null ? 0 : producer.leases()) + (consumer == null ? 0 : consumer.leases()),
        consumer == null ? 0 : consumer.quarantinedBlocks(),
        engineThreads == null ? 0 : engineThreads.pending(),
        figures.liveBatches(),
        figures.registeredBytes(),
        engineThreads == null ? 0 : engineThreads.writing(),
        producer == null ? 0 : producer.pinnedBlocks());
  }

  private void ensureOpen() {
    if (closed.get()) {
      throw new IllegalStateException("worker is closed: open another");
    }
  }

  private void ensureAlive() {
    if (loop.isDead()) {
      throw new KvConnectorException("the worker loop has died, see the log: open another worker");
    }
  }

  @Override
  public void close() {
    if (!closed.compareAndSet(false, true)) {
      if (!loop.isOwnThread()) {
        closing.awaitEnd();
      }
      return;
    }
    // Who holds the lock waits for one of two things, and both end now.
    registrar.cancel();
    lifecycle.lock();
    try {
      String reason = "the connector is closed";
      step("end the watch of the registration", this::endWatch);
      step("take the registration back", registrar::deregister);
      step("refuse requests", () -> onLoop("refuse requests", () -> refuseAll(reason)));
      step("wait until prefillers have heard of it", this::awaitCourtesies);
      EngineThreads engineThreads = threads;
      if (engineThreads != null && !engineThreads.close(CLOSE_POOL_NANOS)) {
        LOG.warn("engine threads did not end in time: they end with the write they are at");
      }
      step("stop the loop", () -> stopLoop());
      step("close the engine", this::closeEngine);
      reader.shutdownNow();
      results.close();
      lastStats = new WorkerStats(0, 0, 0, 0, 0, 0, 0, 0);
      listener.workerClosed(config.engineId());
    } finally {
      lifecycle.unlock();
      try {
        onClosed.run();
      } finally {
        closing.ended();
      }
    }
  }

  /** A registration that came after it was taken back would stay. */
  private void endWatch() {
    if (loop.isHealthy()) {
      CompletionStage<?> registering =
          loop.call("end the watch of the registration", WATCH_NANOS, watch::end);
      try {
        registering.toCompletableFuture().get(WATCH_NANOS, TimeUnit.NANOSECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      } catch (ExecutionException | TimeoutException e) {
        LOG.debug("a registration under way was not awaited to a good end", e);
      }
    }
  }

  /** What was let go is told to prefillers, which takes a round trip; one that is silent, none. */
  private void awaitCourtesies() {
    Consumer decoder = consumer;
    if (decoder == null) {
      return;
    }
    CompletableFuture<@Nullable Void> told = new CompletableFuture<>();
    events.post(() -> checkTold(decoder, told));
    try {
      told.get(FAREWELL_NANOS, TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException e) {
      LOG.debug("not all prefillers have heard that their transfers were let go", e);
    } finally {
      told.cancel(false);
    }
  }

  private void checkTold(Consumer decoder, CompletableFuture<@Nullable Void> told) {
    if (told.isDone()) {
      return;
    }
    if (decoder.courtesies() == 0) {
      told.complete(null);
    } else {
      events.schedule(TimeUnit.MILLISECONDS.toNanos(2), () -> checkTold(decoder, told));
    }
  }

  private void refuseAll(String reason) {
    if (producer != null) {
      producer.close(reason);
    }
    if (consumer != null) {
      consumer.close(reason);
    }
  }

  private void stopLoop() {
    if (!loop.stop(CLOSE_LOOP_NANOS)) {
      LOG.warn("the worker loop did not end in time");
    }
  }

  private void closeEngine() {
    KvCacheLayout current = layout;
    EngineThreads engineThreads = threads;
    int writing = engineThreads == null ? 0 : engineThreads.pending();
    if (writing > 0) {
      LOG.warn(
          "transfers={} are not quiet: their memory stays registered until the engine closes",
          writing);
    } else if (current != null && registered) {
      try {
        engine.unregister(LocalCaches.ranges(current));
      } catch (TransferEngineException e) {
        LOG.warn("memory could not be given back: {}", e.getMessage());
      }
    }
    engine.close();
  }

  /** One step of closing: what it throws is logged and the next step goes on. */
  private static void step(String what, Runnable action) {
    try {
      action.run();
    } catch (RuntimeException | Error e) {
      // An error too: what is not closed now stays open for good.
      LOG.warn("closing: failed to {}", what, e);
    }
  }
}
