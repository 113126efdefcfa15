package dev.mooncake4j.connector;

import java.time.Duration;

/**
 * The worker side: one per rank. It owns the rank's engine, side channel and engine threads.
 *
 * <p>Thread-safe. {@link #startStep}, {@link #poll} and {@link #release} post or take and return at
 * once; they may be called from virtual threads. Source of the contract: the worker half of vLLM's
 * MooncakeConnector.
 */
public interface KvWorker extends AutoCloseable {

  /** The place of this worker among its engine's ranks. */
  RankLayout rank();

  /**
   * Registers the KV memory with the engine and draws a new layout id; on a prefiller the side
   * channel is bound and the rank registered with the bootstrap server when this returns.
   *
   * <p>Blocks: registering large memory takes seconds, and the bootstrap server is tried three
   * times. Once per worker, unless {@link #unregisterKvCaches()} came between. On failure all that
   * was registered is taken back. Where the caches are others than before, a prefiller refuses the
   * pulls that wait, and lets go of the transfers that are ready: they are of the former ones.
   *
   * @throws TransferEngineException if the engine refuses the memory
   * @throws BootstrapUnavailableException if the bootstrap server cannot be reached or refuses
   */
  void registerKvCaches(KvCacheLayout layout);

  /**
   * Starts the step's pulls, marks its sends ready, drops what was cancelled. Returns at once.
   *
   * @throws IllegalStateException after {@link #close()}, also one that is called meanwhile: what
   *     the plan holds was not started and will not be reported, so a server's loop ends here and
   *     fails its requests by itself
   * @throws KvConnectorException if the worker's loop has died
   */
  void startStep(StepPlan plan);

  /** What is to report since the last call; empty when there is nothing. Returns at once. */
  StepResult poll();

  /**
   * Waits until there is something to report, or for the given time. Not for a thread of the common
   * {@link java.util.concurrent.ForkJoinPool}: it may have only one, and the JDK's HTTP client,
   * which asks bootstrap servers, needs it.
   *
   * @return empty when the time has passed, or the worker is closed
   */
  StepResult await(Duration timeout) throws InterruptedException;

  /**
   * Lets a transfer go, from the server or a router, on either side; the other side is told at
   * once. A transfer that is not known, or let go already, is left alone.
   */
  void release(String transferId);

  /** Sleep mode: transfers are drained, then the memory registration is given back. Blocks. */
  void unregisterKvCaches();

  /** Sleep mode: the same memory is registered again, under a new layout id. Blocks. */
  void restoreKvCaches();

  /** The transport in use, as {@code tcp} or {@code rdma}. */
  String transport();

  /** Whether this worker can serve; {@code false} after its loop has died or it was closed. */
  boolean isHealthy();

  /** What this worker holds now. */
  WorkerStats stats();

  /**
   * Stops everything within a bound, whatever the state. Called again, also by another thread
   * meanwhile, it returns when the first call is done: a shutdown hook may call it.
   */
  @Override
  void close();
}
