package dev.mooncake4j.engine;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A write that several threads submit ends as one that a single thread submits. */
@Tag(FakeEngine.TAG)
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ParallelWriteFakeTest {
  private static final int SLOT = 64;
  private static final int SLOTS = 20_000;
  private static final int LANES = 4;
  private static final int WINDOW = 50;
  private static final long PATIENT = SECONDS.toNanos(30);
  private static final long SHORT = Duration.ofMillis(300).toNanos();

  private final Arena arena = Arena.ofShared();
  private final Set<Thread> prepared = ConcurrentHashMap.newKeySet();
  private final ExecutorService threads =
      Executors.newCachedThreadPool(Thread.ofPlatform().daemon().factory());
  private final MemorySegment source = arena.allocate((long) SLOT * SLOTS, 64);
  private final MemorySegment target = arena.allocate((long) SLOT * SLOTS, 64);
  private final TransferEngine sender = open(LANES);
  private final TransferEngine receiver = open(LANES);

  @BeforeAll
  static void libraryIsThere() {
    FakeEngine.require();
  }

  private TransferEngine open(int lanes) {
    return Engines.openParallel(
        new EngineConfig(
            "127.0.0.1",
            "tcp",
            List.of(),
            null,
            NanoClock.SYSTEM,
            () -> prepared.add(Thread.currentThread())),
        lanes,
        WINDOW);
  }

  @BeforeEach
  void register() {
    FakeEngine.reset();
    for (int i = 0; i < SLOTS; i++) {
      source.asSlice((long) i * SLOT, SLOT).fill((byte) (i % 251 + 1));
    }
    sender.register(List.of(range(source)));
    receiver.register(List.of(range(target)));
    prepared.clear();
  }

  @AfterEach
  void theLibraryWasNotMisused() {
    FakeEngine.release();
    awaitTrue("no batch lives", () -> FakeEngine.count("batches") == 0);
    sender.close();
    receiver.close();
    awaitTrue("no engine lives", () -> FakeEngine.count("engines") == 0);
    threads.shutdownNow();
    assertThat(FakeEngine.count("early_frees")).isZero();
    assertThat(FakeEngine.count("double_frees")).isZero();
    assertThat(FakeEngine.count("uses_after_free")).isZero();
    assertThat(FakeEngine.count("destroyed_below")).isZero();
    awaitTrue("no thread is left", () -> prepared.stream().noneMatch(Thread::isAlive));
    arena.close();
  }

  private static MemoryRange range(MemorySegment segment) {
    return new MemoryRange(segment.address(), segment.byteSize(), "cpu:0");
  }

  private WriteResult write(int count, long timeoutNanos) {
    return write(sender, count, timeoutNanos);
  }

  /** Slot i to slot n-1-i, which no list merges. */
  private WriteResult write(TransferEngine engine, int count, long timeoutNanos) {
    try (DescriptorList list = new DescriptorList(count)) {
      for (int i = 0; i < count; i++) {
        list.add(
            source.address() + (long) i * SLOT,
            target.address() + (long) (SLOTS - 1 - i) * SLOT,
            SLOT);
      }
      return engine.write(HostAddresses.join(receiver.host(), receiver.port()), list, timeoutNanos);
    }
  }

  private Future<WriteResult> writing(int count) {
    return threads.submit(() -> write(count, PATIENT));
  }

  private static void awaitTrue(String what, BooleanSupplier condition) {
    long end = System.nanoTime() + SECONDS.toNanos(20);
    while (!condition.getAsBoolean()) {
      assertThat(System.nanoTime() - end).as(what).isNegative();
      LockSupport.parkNanos(500_000);
    }
  }

  private void assertWritten(int count) {
    for (int i = 0; i < SLOTS; i++) {
      byte expected = (byte) (i < count ? i % 251 + 1 : 0);
      long at = (long) (SLOTS - 1 - i) * SLOT;
      for (int b = 0; b < SLOT; b++) {
        assertThat(target.get(ValueLayout.JAVA_BYTE, at + b)).as("slot %d", i).isEqualTo(expected);
      }
    }
  }

  @Test
  void everyWindowIsWrittenOnceAndOnlyThose() {
    int count = 10_007;
    assertThat(write(count, PATIENT).message()).isEmpty();
    assertWritten(count);
    assertThat(FakeEngine.count("submits")).isEqualTo(Math.ceilDiv(count, WINDOW));
    assertThat(sender.stats().descriptorsInFlight()).isZero();
    assertThat(sender.stats().liveBatches()).isZero();
  }

  @Test
  void everyLaneHasOneBatchInFlightAtATime() throws Exception {
    FakeEngine.hold(Integer.MAX_VALUE);
    Future<WriteResult> writing = writing(2_000);
    awaitTrue("all lanes", () -> FakeEngine.count("in_flight") == LANES * WINDOW);
    assertThat(prepared).hasSize(LANES - 1);
    assertThat(writing.isDone()).isFalse();
    FakeEngine.release();
    assertThat(writing.get(20, SECONDS).message()).isEmpty();
    assertThat(FakeEngine.count("max_in_flight")).isLessThanOrEqualTo(LANES * WINDOW);
  }

  @Test
  void aShortWriteIsItsCallersAlone() {
    assertThat(write(WINDOW, PATIENT).message()).isEmpty();
    assertThat(FakeEngine.count("submits")).isEqualTo(2);
    assertThat(prepared.size()).isLessThanOrEqualTo(1);
    assertThat(write(20, PATIENT).message()).isEmpty();
    assertThat(FakeEngine.count("submits")).isEqualTo(3);
  }

  @Test
  void aFailedWriteReturnsOnlyWhenEveryLaneIsQuiet() throws Exception {
    FakeEngine.hold(LANES);
    FakeEngine.failTask(3);
    Future<WriteResult> writing = writing(SLOTS);
    awaitTrue("all lanes", () -> FakeEngine.count("in_flight") == LANES * WINDOW - 1);
    assertThat(writing.isDone()).isFalse();
    FakeEngine.release();
    WriteResult result = writing.get(20, SECONDS);
    assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
    assertThat(result.message()).contains("FAILED", "descriptor=", "known_written=");
    assertThat(FakeEngine.count("in_flight")).isZero();
  }

  @Test
  void afterAFailureNoMoreIsSubmitted() {
    try (TransferEngine alone = open(1)) {
      alone.register(List.of(range(source)));
      FakeEngine.failTask(5);
      WriteResult result = write(alone, SLOTS, PATIENT);
      assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
      assertThat(result.message()).contains("descriptor=5", "known_written=0");
      assertThat(FakeEngine.count("submits")).isEqualTo(1);
    }
  }

  @Test
  void whatIsInFlightOnAnyLaneWhenTheTimeHasPassedIsReaped() throws Exception {
    FakeEngine.hold(Integer.MAX_VALUE);
    WriteResult result = write(2_000, SHORT);
    assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    assertThat(result.message()).contains("descriptors=2000", "not done after");
    CompletableFuture<Void> quiet = result.quiet().toCompletableFuture();
    assertThat(quiet).isNotDone();
    assertThat(sender.stats().descriptorsInFlight())
        .isEqualTo(FakeEngine.count("in_flight"))
        .isPositive();
    FakeEngine.release();
    quiet.get(10, SECONDS);
    awaitTrue("idle", () -> sender.stats().liveBatches() == 0);
    assertThat(write(2_000, PATIENT).message()).isEmpty();
  }

  @Test
  void aRefusedBatchFailsTheWriteAndKeepsNoRoom() {
    for (int i = 0; i < 30; i++) {
      FakeEngine.refuseBatches(1);
      WriteResult result = write(1_000, PATIENT);
      assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
      assertThat(result.message()).contains("allocateBatchID");
    }
    assertThat(write(SLOTS, PATIENT).message()).isEmpty();
  }

  @Test
  void severalWritesAtATimeShareTheThreadsAndAllEnd() throws Exception {
    List<Future<WriteResult>> writes =
        List.of(writing(5_000), writing(5_000), writing(5_000), writing(5_000), writing(1));
    for (Future<WriteResult> write : writes) {
      assertThat(write.get(30, SECONDS).message()).isEmpty();
    }
    assertWritten(5_000);
    assertThat(prepared.size()).isLessThanOrEqualTo(LANES - 1);
  }

  @Test
  void closeEndsALongWriteAndLeavesTheStuckOnesToTheReaper() throws Exception {
    FakeEngine.hold(Integer.MAX_VALUE);
    Future<WriteResult> stuck = writing(SLOTS);
    awaitTrue("all lanes", () -> FakeEngine.count("in_flight") == LANES * WINDOW);
    sender.close();
    WriteResult result = stuck.get(10, SECONDS);
    assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    assertThat(result.message()).contains("the engine is closing");
    assertThat(prepared).allMatch(Thread::isAlive);
    FakeEngine.release();
    result.quiet().toCompletableFuture().get(10, SECONDS);
    awaitTrue("released after all", () -> FakeEngine.count("engines") == 1);
  }
}
