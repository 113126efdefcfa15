package dev.mooncake4j.engine;

import dev.mooncake4j.engine.ffi.transfer_status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Goes on asking for the batches of writes that have run out of time, and frees them when they are
 * done.
 *
 * <p>Its thread lives only while there is such a batch, and is not to be stopped: as long as the
 * engine may read the memory of a batch, somebody must know. Thread-safe.
 */
final class BatchReaper {
  private static final Logger LOG = LoggerFactory.getLogger(BatchReaper.class);
  private static final long SHORTEST_PAUSE_NANOS = 500_000;
  private static final long LONGEST_PAUSE_NANOS = 20_000_000;

  private final EngineCore core;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition emptied = lock.newCondition();
  private final List<Orphans> orphans = new ArrayList<>();
  private @Nullable Thread thread;

  BatchReaper(EngineCore core) {
    this.core = core;
  }

  /** The batches of one write. */
  private record Orphans(List<Batch> batches, CompletableFuture<Void> quiet) {}

  /**
   * Takes batches over.
   *
   * @return completed, on the reaper's thread, when none of them is in flight any more; what hangs
   *     on it must not block
   */
  CompletionStage<Void> adopt(Iterable<Batch> batches) {
    List<Batch> adopted = new ArrayList<>();
    batches.forEach(adopted::add);
    CompletableFuture<Void> quiet = new CompletableFuture<>();
    if (adopted.isEmpty()) {
      quiet.complete(null);
      return quiet.minimalCompletionStage();
    }
    lock.lock();
    try {
      orphans.add(new Orphans(adopted, quiet));
      ensureThread();
    } finally {
      lock.unlock();
    }
    return quiet.minimalCompletionStage();
  }

  private void ensureThread() {
    if (thread == null || !thread.isAlive()) {
      thread = start(thread);
    }
  }

  /** Where it cannot be started the next write that is taken over tries again, or the close. */
  private @Nullable Thread start(@Nullable Thread ended) {
    if (ended != null) {
      LOG.warn("engine={} the reaper had ended with an error, another one goes on", core.address);
    }
    try {
      return Thread.ofPlatform().daemon().name("m4j-engine-reaper").start(this::run);
    } catch (Error e) {
      LOG.warn(
          "engine={} writes={} are not known to be quiet: no thread",
          core.address,
          orphans.size(),
          e);
      return null;
    }
  }

  /** Waits until it has no batch; whether it has none. */
  boolean awaitEmpty(long nanos) throws InterruptedException {
    lock.lock();
    try {
      long left = nanos;
      if (!orphans.isEmpty()) {
        ensureThread();
      }
      while (!orphans.isEmpty()) {
        if (left <= 0) {
          return false;
        }
        left = emptied.awaitNanos(left);
      }
      return true;
    } finally {
      lock.unlock();
    }
  }

  private void run() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment status = arena.allocate(transfer_status.layout());
      long pause = SHORTEST_PAUSE_NANOS;
      while (true) {
        List<Orphans> ended = reap(status);
        if (ended == null) {
          return;
        }
        // Outside the lock: whoever waits for it may begin another write at once.
        for (Orphans write : ended) {
          write.quiet.complete(null);
        }
        pause = ended.isEmpty() ? Math.min(LONGEST_PAUSE_NANOS, pause * 2) : SHORTEST_PAUSE_NANOS;
        LockSupport.parkNanos(pause);
      }
    }
  }

  /** The writes that are quiet now; {@code null} if there is none left to wait for. */
  private @Nullable List<Orphans> reap(MemorySegment status) {
    lock.lock();
    try {
      if (orphans.isEmpty()) {
        thread = null;
        emptied.signalAll();
        return null;
      }
      List<Orphans> ended = new ArrayList<>();
      for (Orphans write : orphans) {
        // Some may be over already, where the thread that had looked at them ended with an error.
        write.batches.removeIf(batch -> batch.isOver() || batch.poll(status));
        if (write.batches.isEmpty()) {
          ended.add(write);
        }
      }
      if (!ended.isEmpty()) {
        orphans.removeAll(ended);
        LOG.info(
            "engine={} writes={} that had run out of time are quiet; batches still in flight={}",
            core.address,
            ended.size(),
            core.liveBatches.get());
      }
      return ended;
    } finally {
      lock.unlock();
    }
  }

  /** Waits for as long as it takes. */
  void awaitEmpty() throws InterruptedException {
    boolean empty = awaitEmpty(TimeUnit.DAYS.toNanos(365));
    assert empty;
  }
}
