package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.LocalCache;

/** The engine threads of one worker, as its lifecycle sees them. */
public final class EngineThreads {
  private final TransferPool pool;

  private EngineThreads(TransferPool pool) {
    this.pool = pool;
  }

  /**
   * Starts them; each runs the hook first.
   *
   * @throws dev.mooncake4j.connector.KvConnectorException if the hook fails on one
   */
  public static EngineThreads start(
      TransferEngine engine, NanoClock clock, int threads, String name, Runnable threadStart) {
    return new EngineThreads(TransferPool.start(engine, clock, threads, name, threadStart));
  }

  /**
   * Has a producer serve pulls from these caches with these threads; on the loop.
   *
   * @param memory what of them can be read, for digests
   */
  public void attach(Producer producer, LocalCache cache, HostMemory memory) {
    producer.attach(cache, memory, pool);
  }

  /** Transfers handed over that have not ended. */
  public int pending() {
    return pool.pending();
  }

  /** Those of the pending ones that a thread has taken. */
  public int writing() {
    return pool.writing();
  }

  /** Refuses new transfers and waits for those under way; returns whether all threads ended. */
  public boolean close(long waitNanos) {
    return pool.close(waitNanos);
  }
}
