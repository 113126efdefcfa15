package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.core.integrity.Digests;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.BlockRuns;
import dev.mooncake4j.core.plan.PlanException;
import dev.mooncake4j.core.producer.TransferJob.Outcome;
import dev.mooncake4j.core.trace.Stage;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The engine threads: each takes a job, plans it, writes it and tells the outcome. Which job is
 * next, {@link TransferQueue} says.
 *
 * <p>Platform threads of our own, since the engine's calls may block. They hold no state of
 * requests; each keeps one descriptor list and one set of runs, used again and again.
 */
final class TransferPool implements TransferRunner {
  private static final Logger LOG = LoggerFactory.getLogger(TransferPool.class);

  /** A write may take this long whatever its size: connecting, a busy peer. */
  private static final long WRITE_BASE_NANOS = TimeUnit.SECONDS.toNanos(30);

  /** The slowest link that is worth waiting for, 10 MB/s, as nanoseconds per byte. */
  private static final long WRITE_NANOS_PER_BYTE = 100;

  /** How long the user's hook may take on each thread. */
  private static final long START_SECONDS = 60;

  private final TransferEngine engine;
  private final NanoClock clock;
  private final TransferQueue queue;
  private final AtomicInteger pending = new AtomicInteger();
  private final List<Thread> threads = new ArrayList<>();
  private volatile boolean closed;

  private TransferPool(TransferEngine engine, NanoClock clock, int threads) {
    this.engine = engine;
    this.clock = clock;
    this.queue = new TransferQueue(clock, threads);
  }

  /**
   * Starts the threads and waits until each has run the hook.
   *
   * @throws KvConnectorException if one cannot be started, or the hook fails on one
   */
  static TransferPool start(
      TransferEngine engine, NanoClock clock, int threads, String name, Runnable threadStart) {
    TransferPool pool = new TransferPool(engine, clock, threads);
    List<CompletableFuture<@Nullable Void>> started = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      CompletableFuture<@Nullable Void> up = new CompletableFuture<>();
      started.add(up);
      try {
        pool.threads.add(
            Thread.ofPlatform()
                .name("m4j-engine-" + name + "-" + i)
                .daemon()
                .start(() -> pool.run(threadStart, up)));
      } catch (OutOfMemoryError e) {
        pool.close(0);
        throw new KvConnectorException(
            "num_workers="
                + threads
                + ": only "
                + i
                + " threads could be started, raise the limit of threads or lower it",
            e);
      }
    }
    try {
      CompletableFuture.allOf(started.toArray(CompletableFuture[]::new))
          .get(START_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      pool.close(0);
      Thread.currentThread().interrupt();
      throw new KvConnectorException("interrupted while engine threads started", e);
    } catch (TimeoutException e) {
      pool.close(0);
      throw new KvConnectorException(
          "the engine_thread_start hook has not returned within seconds="
              + START_SECONDS
              + ": mend it, or leave it out",
          e);
    } catch (ExecutionException e) {
      pool.close(0);
      throw new KvConnectorException(
          "the engine_thread_start hook failed: mend it, or leave it out", e.getCause());
    }
    return pool;
  }

  @Override
  public void submit(TransferJob job, Consumer<Outcome> done) {
    pending.incrementAndGet();
    TransferQueue.Work work = new TransferQueue.Work(job, done);
    String refusal = queue.add(work);
    if (refusal != null) {
      work.waited("refused", refusal);
      finish(done, failed(job, refusal));
    }
  }

  @Override
  public int pending() {
    return pending.get();
  }

  @Override
  public int writing() {
    // One that is being handed over is pending and not yet in the queue.
    return Math.max(0, pending.get() - queue.waiting());
  }

  private void run(Runnable threadStart, CompletableFuture<@Nullable Void> up) {
    try {
      threadStart.run();
    } catch (RuntimeException | Error e) {
      up.completeExceptionally(e);
      return;
    }
    up.complete(null);
    try (DescriptorList descriptors = new DescriptorList()) {
      BlockRuns runs = new BlockRuns();
      TransferQueue.Work work;
      while ((work = queue.take()) != null) {
        transfer(work, descriptors, runs);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void transfer(TransferQueue.Work work, DescriptorList descriptors, BlockRuns runs) {
    TransferJob job = work.job;
    work.waited("taken", null);
    if (closed) {
      left(work, false, null);
      finish(work.done, failed(job, "the connector is closing"));
      return;
    }
    if (job.asker().isGone()) {
      // It has waited here; what it would write into may be another process's by now.
      left(work, false, null);
      finish(work.done, failed(job, Asker.GONE));
      return;
    }
    JobStages writes = JobStages.start(Stage.WRITE, job);
    try {
      descriptors.clear();
      @Nullable TransferDigest[] digests = new @Nullable TransferDigest[job.parts().size()];
      @Nullable String[] failures = plan(job, descriptors, runs, digests, writes);
      long bytes = descriptors.bytes();
      int count = descriptors.size();
      if (count == 0) {
        left(work, false, null);
        JobStages.finish(writes, failures);
        finish(work.done, new Outcome(Arrays.asList(failures), false, 0, 0, 0));
        return;
      }
      String closed = job.plan().arenas().closed();
      if (closed != null) {
        // Reading it would end the process. The decoder's engine is not to blame.
        left(work, false, null);
        String gone = "the prefiller's kv memory is gone: " + closed;
        JobStages.finish(writes, "failed", gone);
        finish(work.done, failed(job, gone));
        return;
      }
      long start = clock.nanoTime();
      WriteResult result =
          engine.write(job.session(), descriptors, WRITE_BASE_NANOS + bytes * WRITE_NANOS_PER_BYTE);
      long took = clock.nanoTime() - start;
      if (result.isCompleted()) {
        left(work, true, null);
        JobStages.finish(writes, failures);
        finish(
            work.done,
            new Outcome(
                Arrays.asList(failures), false, took, bytes, count, Arrays.asList(digests)));
        return;
      }
      for (int i = 0; i < failures.length; i++) {
        if (failures[i] == null) {
          failures[i] = "transfer engine: " + result.message();
        }
      }
      Outcome outcome = new Outcome(Arrays.asList(failures), true, took, bytes, count);
      left(work, true, result.message());
      // The decoder is told only when no byte can be written any more, and the blocks stay pinned
      // until then. If that moment never comes, the decoder's own deadline ends its request.
      result
          .quiet()
          .whenComplete(
              (quiet, failure) -> {
                JobStages.finish(writes, failures);
                finish(work.done, outcome);
              });
    } catch (RuntimeException | Error e) {
      LOG.error("an engine thread failed on a transfer to peer={}", job.session(), e);
      left(work, false, null);
      String reason = "the prefiller's engine thread failed: " + e;
      JobStages.finish(writes, "failed", reason);
      finish(work.done, failed(job, reason));
    }
  }

  /** A transfer is over for this thread; what waited behind it may be refused by that. */
  private void left(TransferQueue.Work work, boolean written, @Nullable String failure) {
    TransferQueue.Refused refused = queue.done(work, written, failure);
    for (TransferQueue.Work behind : refused.transfers()) {
      behind.waited("refused", refused.reason());
      finish(behind.done, failed(behind.job, refused.reason()));
    }
  }

  private static @Nullable String[] plan(
      TransferJob job,
      DescriptorList descriptors,
      BlockRuns runs,
      @Nullable TransferDigest[] digests,
      @Nullable JobStages writes) {
    @Nullable String[] failures = new @Nullable String[job.parts().size()];
    if (!planTogether(job, descriptors, runs, writes)) {
      planEach(job, descriptors, runs, failures, digests, writes);
    }
    return failures;
  }

  /** As one, where that can be done: whether it was. */
  private static boolean planTogether(
      TransferJob job, DescriptorList descriptors, BlockRuns runs, @Nullable JobStages writes) {
    int requests = job.parts().size();
    if (requests < 2 || job.digested() != null) {
      return false; // a copy of two requests would belong to two digests
    }
    BlockIds[] local = new BlockIds[requests];
    BlockIds[] remote = new BlockIds[requests];
    for (int i = 0; i < requests; i++) {
      local[i] = job.parts().get(i).local();
      remote[i] = job.parts().get(i).remote();
    }
    try {
      job.plan().plan(local, remote, runs, descriptors);
    } catch (PlanException e) {
      return false; // planned one by one it is seen whose fault it is, and the others go on
    }
    if (writes != null) {
      for (int i = 0; i < requests; i++) {
        writes.planned(i, job.plan().bytes(remote[i]), descriptors.size());
      }
    }
    return true;
  }

  private static void planEach(
      TransferJob job,
      DescriptorList descriptors,
      BlockRuns runs,
      @Nullable String[] failures,
      @Nullable TransferDigest[] digests,
      @Nullable JobStages writes) {
    HostMemory digested = job.digested();
    for (int i = 0; i < failures.length; i++) {
      TransferJob.Part part = job.parts().get(i);
      int from = descriptors.size();
      long bytesBefore = descriptors.bytes();
      try {
        if (digested != null) {
          // A copy that reaches into the next request's blocks would belong to two digests.
          descriptors.fence();
        }
        job.plan().plan(part.local(), part.remote(), runs, descriptors);
        if (writes != null) {
          writes.planned(i, descriptors.bytes() - bytesBefore, descriptors.size() - from);
        }
        if (digested != null) {
          digests[i] = Digests.ofSources(digested, descriptors, from, descriptors.size());
        }
      } catch (PlanException e) {
        failures[i] = e.getMessage();
      }
    }
  }

  private static Outcome failed(TransferJob job, String reason) {
    return new Outcome(java.util.Collections.nCopies(job.parts().size(), reason), false, 0, 0, 0);
  }

  private void finish(Consumer<Outcome> done, Outcome outcome) {
    pending.decrementAndGet();
    done.accept(outcome);
  }

  @Override
  public boolean close(long waitNanos) {
    closed = true;
    queue.close();
    long end = System.nanoTime() + waitNanos;
    boolean all = true;
    for (Thread thread : threads) {
      long millis = Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
      try {
        thread.join(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return false;
      }
      all &= !thread.isAlive();
    }
    return all;
  }
}
