package dev.mooncake4j.engine;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.testkit.ManualClock;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What becomes of batches when the engine below does not do what it should. */
@Tag(FakeEngine.TAG)
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BatchesFakeTest {
  private static final int SLOT = 64;
  private static final int SLOTS = 20_000;
  private static final long PATIENT = SECONDS.toNanos(30);

  /** Long enough to submit, and short enough to be waited for. */
  private static final long SHORT = Duration.ofMillis(300).toNanos();

  private final Arena arena = Arena.ofShared();
  private final ExecutorService threads =
      Executors.newCachedThreadPool(Thread.ofPlatform().daemon().factory());
  private final MemorySegment source = arena.allocate((long) SLOT * SLOTS, 64);
  private final MemorySegment target = arena.allocate((long) SLOT * SLOTS, 64);
  private TransferEngine sender = open(NanoClock.SYSTEM);
  private final TransferEngine receiver = open(NanoClock.SYSTEM);

  @BeforeAll
  static void libraryIsThere() {
    FakeEngine.require();
  }

  @BeforeEach
  void register() {
    FakeEngine.reset();
    source.fill((byte) 7);
    sender.register(List.of(range(source)));
    receiver.register(List.of(range(target)));
  }

  @AfterEach
  void theLibraryWasNotMisused() {
    FakeEngine.hangOpen(false);
    FakeEngine.release();
    awaitTrue("no batch lives", () -> FakeEngine.count("batches") == 0);
    awaitTrue("sender is idle", () -> sender.stats().liveBatches() == 0);
    sender.close();
    receiver.close();
    awaitTrue("no engine lives", () -> FakeEngine.count("engines") == 0);
    threads.shutdownNow();
    assertThat(FakeEngine.count("early_frees")).isZero();
    assertThat(FakeEngine.count("hasty_frees")).isZero();
    assertThat(FakeEngine.count("double_frees")).isZero();
    assertThat(FakeEngine.count("uses_after_free")).isZero();
    assertThat(FakeEngine.count("destroyed_below")).isZero();
    arena.close();
  }

  private static TransferEngine open(NanoClock clock) {
    return new NativeTransferEngineProvider()
        .open(new EngineConfig("127.0.0.1", "tcp", List.of(), null, clock));
  }

  private static MemoryRange range(MemorySegment segment) {
    return new MemoryRange(segment.address(), segment.byteSize(), "cpu:0");
  }

  private String peer() {
    return HostAddresses.join(receiver.host(), receiver.port());
  }

  /** Descriptors that no list merges. */
  private DescriptorList list(int count) {
    DescriptorList list = new DescriptorList(count);
    for (int i = 0; i < count; i++) {
      list.add(
          source.address() + (long) i * SLOT,
          target.address() + (long) (SLOTS - 1 - i) * SLOT,
          SLOT - 1);
    }
    return list;
  }

  private WriteResult write(int count, long timeoutNanos) {
    try (DescriptorList list = list(count)) {
      return sender.write(peer(), list, timeoutNanos);
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

  @Test
  void aBatchThatTheEngineIsStillBusyWithIsFreedLater() {
    FakeEngine.busyFrees(2);
    assertThat(write(10, PATIENT).isCompleted()).isTrue();
    assertThat(sender.stats().liveBatches()).as("it is over all the same").isZero();
    awaitTrue("freed", () -> FakeEngine.count("batches") == 0);
  }

  @Test
  void whatRestsIsFreedBeforeTheEngineEnds() {
    for (int i = 0; i < 50; i++) {
      assertThat(write(1, PATIENT).isCompleted()).isTrue();
    }
    sender.close();
    assertThat(FakeEngine.count("batches")).isZero();
    assertThat(FakeEngine.count("engines")).as("the receiver's alone").isEqualTo(1);
  }

  @Test
  void aFailedBatchThatTheEngineIsStillBusyWithIsAskedAgain() {
    FakeEngine.busyFrees(1);
    FakeEngine.failTask(3);
    WriteResult result = write(10, PATIENT);
    assertThat(result.message()).contains("state=FAILED");
    assertThat(FakeEngine.count("batches")).as("it is told when the engine lets go").isZero();
  }

  @Test
  void aWriteThatRunsOutOfTimeIsReapedWhenItEnds() throws Exception {
    FakeEngine.hold(1);
    WriteResult result = write(10, SHORT);
    assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    assertThat(result.message()).contains(peer(), "descriptors=10", "submitted=10");
    CompletableFuture<Void> quiet = result.quiet().toCompletableFuture();
    assertThat(quiet).isNotDone();
    assertThat(sender.stats()).isEqualTo(new EngineStats(1, 10, 1, (long) SLOT * SLOTS));
    FakeEngine.release();
    quiet.get(10, SECONDS);
    awaitTrue("idle", () -> sender.stats().descriptorsInFlight() == 0);
    awaitTrue("its batch is freed", () -> FakeEngine.count("batches") == 0);
    assertThat(write(10, PATIENT).isCompleted()).isTrue();
  }

  @Test
  void quietOfAWriteDoesNotWaitForAnotherWrites() throws Exception {
    FakeEngine.hold(1);
    WriteResult stuck = write(1, SHORT);
    WriteResult other = write(1, 1);
    if (other.status() == WriteResult.Status.TIMED_OUT) {
      other.quiet().toCompletableFuture().get(10, SECONDS);
    }
    assertThat(stuck.quiet().toCompletableFuture()).isNotDone();
  }

  @Test
  void aFailedWriteReturnsOnlyWhenItIsQuiet() throws Exception {
    FakeEngine.hold(1);
    FakeEngine.failTask(3);
    Future<WriteResult> writing = writing(10);
    awaitTrue("submitted", () -> FakeEngine.count("submits") == 1);
    // Task 3 has failed, the others are under way.
    awaitTrue("in flight", () -> FakeEngine.count("in_flight") == 9);
    assertThat(writing.isDone()).isFalse();
    FakeEngine.release();
    WriteResult result = writing.get(10, SECONDS);
    assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
    assertThat(result.message())
        .contains("descriptor=3", "FAILED", Long.toHexString(source.address() + 3 * SLOT));
    assertThat(FakeEngine.count("in_flight")).isZero();
  }

  @Test
  void aFailedWriteThatDoesNotGetQuietRunsOutOfTime() throws Exception {
    FakeEngine.hold(1);
    FakeEngine.failTask(0);
    WriteResult result = write(10, SHORT);
    assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    assertThat(result.message()).contains("before that", "descriptor=0");
    FakeEngine.releaseAsFailed();
    result.quiet().toCompletableFuture().get(10, SECONDS);
  }

  @Test
  void afterAFailureNoMoreIsSubmitted() {
    FakeEngine.failTask(5);
    WriteResult result = write(SLOTS, PATIENT);
    assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
    assertThat(FakeEngine.count("submits"))
        .isLessThanOrEqualTo(InFlightLimit.DESCRIPTORS / WriteOperation.WINDOW);
  }

  @Test
  void aPartlyRefusedSubmitIsAwaitedAndFails() throws Exception {
    FakeEngine.hold(1);
    FakeEngine.refuseSubmit(5);
    Future<WriteResult> writing = writing(100);
    awaitTrue("half is in flight", () -> FakeEngine.count("in_flight") == 50);
    assertThat(writing.isDone()).isFalse();
    FakeEngine.release();
    WriteResult result = writing.get(10, SECONDS);
    assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
    assertThat(result.message()).contains("submitTransfer code=5");
  }

  @Test
  void aRefusedBatchFailsTheWriteAndKeepsNoRoom() {
    for (int i = 0; i < 20; i++) {
      FakeEngine.refuseBatches(1);
      WriteResult result = write(256, PATIENT);
      assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
      assertThat(result.message()).contains("allocateBatchID");
    }
    assertThat(write(256, PATIENT).isCompleted()).isTrue();
  }

  @Test
  void aTimeoutInsideTheEngineIsAFailureButNotTheEnd() {
    FakeEngine.timeoutOnce(1);
    WriteResult result = write(3, PATIENT);
    assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
    assertThat(result.message()).contains("TIMEOUT", "descriptor=0");
    // It went on after that, and was awaited.
    assertThat(FakeEngine.count("in_flight")).isZero();
  }

  @Test
  void allThreadsTogetherStayBelowTheLimit() throws Exception {
    List<Future<WriteResult>> writes = new ArrayList<>();
    FakeEngine.hold(Integer.MAX_VALUE);
    for (int t = 0; t < 10; t++) {
      writes.add(writing(2_000));
    }
    awaitTrue("full", () -> FakeEngine.count("in_flight") == InFlightLimit.DESCRIPTORS);
    assertThat(sender.stats().descriptorsInFlight()).isEqualTo(InFlightLimit.DESCRIPTORS);
    FakeEngine.release();
    for (Future<WriteResult> write : writes) {
      assertThat(write.get(30, SECONDS).message()).isEmpty();
    }
    assertThat(FakeEngine.count("max_in_flight")).isLessThanOrEqualTo(InFlightLimit.DESCRIPTORS);
  }

  @Test
  void aShortWriteIsNotHeldUpByALongOne() throws Exception {
    // The long one takes all the room, the short one waits, and gets the first room that is free.
    FakeEngine.hold(InFlightLimit.DESCRIPTORS / WriteOperation.WINDOW);
    Future<WriteResult> longOne = writing(SLOTS);
    awaitTrue("full", () -> FakeEngine.count("in_flight") == InFlightLimit.DESCRIPTORS);
    Future<WriteResult> shortOne = writing(1);
    FakeEngine.release();
    assertThat(shortOne.get(20, SECONDS).isCompleted()).isTrue();
    assertThat(longOne.get(20, SECONDS).isCompleted()).isTrue();
  }

  @Test
  void waitingForRoomEndsInTimeAndIsQuiet() throws Exception {
    FakeEngine.hold(Integer.MAX_VALUE);
    Future<WriteResult> holder = writing(InFlightLimit.DESCRIPTORS);
    awaitTrue("full", () -> FakeEngine.count("in_flight") == InFlightLimit.DESCRIPTORS);
    WriteResult result = write(1, SHORT);
    assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    assertThat(result.message()).contains("submitted=0");
    assertThat(result.quiet().toCompletableFuture()).isDone();
    FakeEngine.release();
    assertThat(holder.get(10, SECONDS).isCompleted()).isTrue();
  }

  @Test
  void oneStuckPeerDoesNotHoldUpAnother() throws Exception {
    FakeEngine.hold(Integer.MAX_VALUE);
    Future<WriteResult> holder = writing(InFlightLimit.DESCRIPTORS);
    awaitTrue("full", () -> FakeEngine.count("in_flight") == InFlightLimit.DESCRIPTORS);
    FakeEngine.hold(0);
    MemorySegment elsewhere = arena.allocate(1024);
    TransferEngine other = open(NanoClock.SYSTEM);
    try (DescriptorList list = new DescriptorList()) {
      other.register(List.of(range(elsewhere)));
      list.add(source.address(), elsewhere.address(), 1024);
      String peer = HostAddresses.join(other.host(), other.port());
      assertThat(sender.write(peer, list, PATIENT).message()).isEmpty();
    } finally {
      other.close();
    }
    assertThat(holder.isDone()).isFalse();
    FakeEngine.release();
    assertThat(holder.get(10, SECONDS).isCompleted()).isTrue();
  }

  @Test
  void theDeadlineGoesByTheEnginesClock() throws Exception {
    ManualClock clock = new ManualClock();
    sender.close();
    sender = open(clock);
    sender.register(List.of(range(source)));
    FakeEngine.hold(1);
    Future<WriteResult> writing = writing(5);
    awaitTrue("in flight", () -> FakeEngine.count("in_flight") == 5);
    assertThat(writing.isDone()).isFalse();
    clock.advance(Duration.ofNanos(PATIENT));
    assertThat(writing.get(10, SECONDS).status()).isEqualTo(WriteResult.Status.TIMED_OUT);
  }

  @Test
  void aPeerThatAnswersNothingEndsInTimeAndHoldsUpNobody() {
    FakeEngine.hangOpen(true);
    try (DescriptorList list = list(1)) {
      for (int i = 0; i < 3; i++) {
        WriteResult result = sender.write("127.0.0.1:9", list, SHORT);
        assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
        assertThat(result.message()).contains("127.0.0.1:9", "nothing was written");
        assertThat(result.quiet().toCompletableFuture()).isDone();
      }
    }
    assertThat(write(100, PATIENT).isCompleted()).isTrue();
    FakeEngine.hangOpen(false);
    try (DescriptorList list = list(1)) {
      WriteResult result = sender.write("127.0.0.1:9", list, PATIENT);
      assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
      assertThat(result.message()).contains("cannot be reached");
    }
  }

  @Test
  void nothingUncheckedReachesTheEngine() {
    long from = source.address();
    long to = target.address();
    long[][] bad = {
      {from, 0, 8},
      {from, -8, 8},
      {from, Long.MAX_VALUE - 3, 8},
      {from - 1, to, 8},
      {from + source.byteSize() - 4, to, 8},
      {from, to, Long.MAX_VALUE},
    };
    for (long[] one : bad) {
      try (DescriptorList list = list(300)) {
        list.add(one[0], one[1], one[2]);
        WriteResult result = sender.write(peer(), list, PATIENT);
        assertThat(result.status()).isEqualTo(WriteResult.Status.FAILED);
        assertThat(result.message())
            .contains(
                "descriptor=300",
                "source=0x" + Long.toHexString(one[0]),
                "destination=0x" + Long.toHexString(one[1]),
                "length=" + one[2]);
      }
    }
    assertThat(FakeEngine.count("submits")).isZero();
  }

  @Test
  void aHandleIsAskedForOnceAndAgainAfterAFailure() {
    assertThat(write(1, PATIENT).isCompleted()).isTrue();
    assertThat(write(1, PATIENT).isCompleted()).isTrue();
    assertThat(FakeEngine.count("opens")).isEqualTo(1);
    FakeEngine.failTask(0);
    assertThat(write(1, PATIENT).isCompleted()).isFalse();
    assertThat(write(1, PATIENT).isCompleted()).isTrue();
    assertThat(FakeEngine.count("opens")).isEqualTo(2);
  }

  @Test
  void anInterruptNeitherStopsAWriteNorIsLost() throws Exception {
    FakeEngine.hold(1);
    AtomicBoolean kept = new AtomicBoolean();
    CompletableFuture<WriteResult> result = new CompletableFuture<>();
    Thread writer =
        Thread.ofPlatform()
            .daemon()
            .start(
                () -> {
                  WriteResult ended = write(5, PATIENT);
                  kept.set(Thread.currentThread().isInterrupted());
                  result.complete(ended);
                });
    awaitTrue("in flight", () -> FakeEngine.count("in_flight") == 5);
    writer.interrupt();
    awaitTrue("interrupt seen", () -> !writer.isInterrupted());
    assertThat(result).isNotDone();
    FakeEngine.release();
    assertThat(result.get(10, SECONDS).isCompleted()).isTrue();
    assertThat(kept).isTrue();
  }

  @Test
  void writesFromVirtualThreadsWork() throws Exception {
    CompletableFuture<WriteResult> result = new CompletableFuture<>();
    MemorySegment more = arena.allocate(64);
    Thread.ofVirtual()
        .start(
            () -> {
              try {
                sender.register(List.of(range(more)));
                sender.unregister(List.of(range(more)));
                result.complete(write(1_000, PATIENT));
              } catch (RuntimeException e) {
                result.completeExceptionally(e);
              }
            });
    assertThat(result.get(20, SECONDS).message()).isEmpty();
  }

  @Test
  void closeWithAStuckBatchIsBoundedAndReleasesTheEngineLater() throws Exception {
    FakeEngine.hold(1);
    WriteResult stuck = write(10, SHORT);
    assertThat(stuck.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    sender.close();
    assertThat(sender.stats()).isEqualTo(new EngineStats(1, 10, 1, (long) SLOT * SLOTS));
    assertThat(FakeEngine.count("engines")).isEqualTo(2);
    try (DescriptorList list = list(1)) {
      assertThatThrownBy(() -> sender.write(peer(), list, PATIENT))
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("closed");
    }
    FakeEngine.release();
    stuck.quiet().toCompletableFuture().get(10, SECONDS);
    awaitTrue("released after all", () -> FakeEngine.count("engines") == 1);
    assertThat(sender.stats()).isEqualTo(new EngineStats(0, 0, 0, 0));
  }

  @Test
  void closeDoesNotWaitForAStuckWritesOwnDeadline() throws Exception {
    FakeEngine.hold(Integer.MAX_VALUE);
    Future<WriteResult> stuck = writing(InFlightLimit.DESCRIPTORS);
    awaitTrue("full", () -> FakeEngine.count("in_flight") == InFlightLimit.DESCRIPTORS);
    CompletableFuture<WriteResult> waiting = new CompletableFuture<>();
    Thread waiter = Thread.ofPlatform().daemon().start(() -> waiting.complete(write(1, PATIENT)));
    awaitTrue("waits for room", () -> waiter.getState() == Thread.State.TIMED_WAITING);
    sender.close();
    assertThat(stuck.get(10, SECONDS).status()).isEqualTo(WriteResult.Status.TIMED_OUT);
    assertThat(waiting.get(10, SECONDS).message()).contains("the engine is closing");
    FakeEngine.release();
    stuck.get().quiet().toCompletableFuture().get(10, SECONDS);
    awaitTrue("released after all", () -> FakeEngine.count("engines") == 1);
  }
}
