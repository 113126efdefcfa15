package dev.mooncake4j.testkit;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;

/**
 * The engines, memory and threads of one test of the contract, given back at its end.
 *
 * <p>Used by the test's thread, apart from {@link Pair}s, of which each thread has its own.
 */
final class ContractBench implements AutoCloseable {
  private static final Duration IDLE_BOUND = Duration.ofSeconds(10);
  private static final Duration LATE_BOUND = Duration.ofSeconds(20);

  private final TransferEngineContract contract;
  private final Arena arena = Arena.ofShared();
  private final List<TransferEngine> open = new ArrayList<>();
  private final ConcurrentLinkedQueue<CompletableFuture<Void>> timedOut =
      new ConcurrentLinkedQueue<>();
  private final ExecutorService threads =
      Executors.newCachedThreadPool(Thread.ofPlatform().daemon().name("contract-", 0).factory());

  ContractBench(TransferEngineContract contract) {
    this.contract = contract;
  }

  ExecutorService threads() {
    return threads;
  }

  MemorySegment allocate(long bytes) {
    return arena.allocate(bytes, 4096);
  }

  MemoryRange allocateRange(long bytes) {
    return Traffic.range(allocate(bytes));
  }

  Traffic traffic(long bytes) {
    return new Traffic(arena, bytes, contract.seed);
  }

  TransferEngine open() {
    return adopt(contract.open(contract.config()));
  }

  /** An engine to write from to this one: itself, where engines do not reach one another. */
  TransferEngine openSender(TransferEngine receiver) {
    return contract.supportsTwoEnginesInOneProcess() ? open() : receiver;
  }

  /** Closes the engine at the end. */
  TransferEngine adopt(TransferEngine engine) {
    open.add(engine);
    return engine;
  }

  /** The engine is closed by the test. */
  void disown(TransferEngine engine) {
    open.remove(engine);
  }

  void close(TransferEngine engine) {
    engine.close();
    disown(engine);
  }

  Pair pair(long bytes) {
    TransferEngine receiver = open();
    return pair(openSender(receiver), receiver, bytes);
  }

  Pair pair(TransferEngine sender, TransferEngine receiver, long bytes) {
    return pair(sender, receiver, traffic(bytes));
  }

  Pair pair(TransferEngine sender, TransferEngine receiver, Traffic traffic) {
    sender.register(List.of(traffic.sourceRange()));
    receiver.register(List.of(traffic.destinationRange()));
    return new Pair(sender, receiver, traffic);
  }

  /** Writes, and holds the result against what every result has to be. */
  WriteResult write(TransferEngine sender, String peer, DescriptorList list, Duration timeout) {
    long start = System.nanoTime();
    WriteResult result = sender.write(peer, list, timeout.toNanos());
    // Far more than any engine needs: it is hanging that is found here.
    assertThat(Duration.ofNanos(System.nanoTime() - start))
        .as("duration of " + result)
        .isLessThan(timeout.plus(LATE_BOUND));
    CompletableFuture<Void> quiet = result.quiet().toCompletableFuture();
    if (result.status() == WriteResult.Status.TIMED_OUT) {
      timedOut.add(quiet);
    } else {
      assertThat(quiet).as("quiet stage of " + result).isCompleted();
    }
    return result;
  }

  /** Uses every pair on a thread of its own, all at once. */
  void inParallel(List<Pair> pairs, Use use) throws Exception {
    CountDownLatch go = new CountDownLatch(1);
    List<Future<?>> all = new ArrayList<>();
    for (Pair pair : pairs) {
      all.add(
          threads.submit(
              () -> {
                go.await();
                use.of(pair);
                return null;
              }));
    }
    go.countDown();
    for (Future<?> one : all) {
      one.get(2 * contract.writeTimeout().toNanos(), NANOSECONDS);
    }
  }

  void awaitIdle(TransferEngine engine) {
    long deadline = System.nanoTime() + IDLE_BOUND.toNanos();
    EngineStats stats = engine.stats();
    while ((stats.liveBatches() != 0 || stats.descriptorsInFlight() != 0)
        && System.nanoTime() - deadline < 0) {
      LockSupport.parkNanos(1_000_000);
      stats = engine.stats();
    }
    assertThat(stats.liveBatches()).as("batches that live on").isZero();
    assertThat(stats.descriptorsInFlight()).as("descriptors in flight").isZero();
  }

  /** Requires that no engine has anything under way, unless a write is known to be. */
  @Override
  public void close() {
    boolean quiet = false;
    try {
      if (timedOut.stream().allMatch(CompletableFuture::isDone)) {
        open.forEach(this::awaitIdle);
        quiet = true;
      }
    } finally {
      open.forEach(TransferEngine::close);
      threads.shutdownNow();
      // Freed only where nothing can write to it any more.
      if (quiet) {
        arena.close();
      }
    }
  }

  static void assertCompleted(WriteResult result) {
    assertThat(result.message()).as("message").isEmpty();
    assertThat(result.status()).isEqualTo(WriteResult.Status.COMPLETED);
  }

  static void assertFailed(WriteResult result) {
    assertThat(result.status()).as(result.message()).isEqualTo(WriteResult.Status.FAILED);
    assertThat(result.message()).isNotBlank();
  }

  static void assertNotCompleted(WriteResult result) {
    assertThat(result.status()).isNotEqualTo(WriteResult.Status.COMPLETED);
    assertThat(result.message()).isNotBlank();
  }

  /** What a thread does with one pair. */
  @FunctionalInterface
  interface Use {
    void of(Pair pair);
  }

  /** A sender and a receiver with registered memory. One thread at a time. */
  final class Pair {
    final TransferEngine sender;
    final TransferEngine receiver;
    final Traffic traffic;

    private Pair(TransferEngine sender, TransferEngine receiver, Traffic traffic) {
      this.sender = sender;
      this.receiver = receiver;
      this.traffic = traffic;
    }

    String peer() {
      return HostAddresses.join(receiver.host(), receiver.port());
    }

    WriteResult write(DescriptorList list) {
      return ContractBench.this.write(sender, peer(), list, contract.writeTimeout());
    }

    /** Two descriptors within the first 8 KiB, which must arrive. */
    void writeGood() {
      try (DescriptorList list = new DescriptorList()) {
        traffic.add(list, 1, 4100, 1000);
        traffic.add(list, 2001, 6200, 1900);
        assertCompleted(write(list));
      }
    }

    /** Writes so many descriptors again and again; the first time must succeed. */
    void writeUntilClosed(int count, CountDownLatch written) {
      try (DescriptorList list = new DescriptorList()) {
        for (int i = 0; i < count; i++) {
          traffic.add(list, i * 128L, (count - 1 - i) * 128L, 100);
        }
        boolean first = true;
        while (true) {
          WriteResult result = write(list);
          if (first) {
            assertCompleted(result);
            written.countDown();
            first = false;
          }
        }
      } catch (IllegalStateException e) {
        // Closed: what this waits for.
      }
    }

    void assertArrived() {
      traffic.assertArrived(sender.completionProvesArrival());
    }
  }
}
