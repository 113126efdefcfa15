package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.engine.load.EngineLibrary;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * What the parts of one engine share: the native engine, who uses it, and what is under way.
 *
 * <p>Every native call is made under {@link #enter}, so that the engine is not destroyed below it.
 * Thread-safe.
 */
final class EngineCore {
  /** How long a write goes on once the engine closes, before its batches are left to the reaper. */
  static final long CLOSE_PATIENCE_NANOS = 2_000_000_000L;

  final EngineLibrary library;
  final MemorySegment handle;
  final NanoClock clock;

  /** {@code host:port} of this engine. */
  final String address;

  /** Batches that are done and not yet freed. */
  final RetiredBatches retired;

  /** Batches submitted and not yet known to be over. */
  final AtomicInteger liveBatches = new AtomicInteger();

  /** Descriptors submitted and not yet known to be done. */
  final AtomicInteger descriptorsInFlight = new AtomicInteger();

  /** Held shared by those who call the engine, and alone by the one that ends it. */
  final ReadWriteLock use = new ReentrantReadWriteLock();

  private volatile boolean closing;
  private volatile long closedAtNanos;

  EngineCore(EngineLibrary library, MemorySegment handle, NanoClock clock, String address) {
    this.library = library;
    this.handle = handle;
    this.clock = clock;
    this.address = address;
    this.retired = new RetiredBatches(address);
  }

  /**
   * Begins a use of the engine, to be ended with {@link #exit}.
   *
   * @throws IllegalStateException if the engine is closed
   */
  void enter() {
    if (!tryEnter()) {
      throw new IllegalStateException("engine=" + address + " is closed: open another");
    }
  }

  /** {@link #enter} where there is nobody to throw to. */
  boolean tryEnter() {
    if (closing || !use.readLock().tryLock()) {
      return false;
    }
    if (closing) {
      use.readLock().unlock();
      return false;
    }
    return true;
  }

  void exit() {
    use.readLock().unlock();
  }

  /** From now on nobody enters. */
  void beginClose() {
    // The system's time: a clock that a test drives must not keep close from ending.
    closedAtNanos = System.nanoTime();
    closing = true;
  }

  boolean isClosing() {
    return closing;
  }

  /** Whether those who still wait for the engine are to leave it. */
  boolean isClosingImpatiently() {
    return closing && System.nanoTime() - closedAtNanos >= CLOSE_PATIENCE_NANOS;
  }
}
