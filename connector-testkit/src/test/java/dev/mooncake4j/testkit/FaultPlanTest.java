package dev.mooncake4j.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.connector.spi.WriteResult.Status;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class FaultPlanTest {
  private static final Duration BOUND = Duration.ofSeconds(20);
  private static final int SLOT = 64;
  private static final int SLOTS = 8;

  private final Arena arena = Arena.ofShared();
  private final ManualClock clock = new ManualClock();
  private final InMemoryNetwork network = new InMemoryNetwork();
  private final InMemoryTransferEngineProvider provider =
      new InMemoryTransferEngineProvider(network);
  private final FaultPlan faults = provider.faults();
  private final Traffic traffic = new Traffic(arena, SLOT * SLOTS, 42);
  private final ExecutorService threads =
      Executors.newCachedThreadPool(Thread.ofPlatform().daemon().factory());
  private InMemoryTransferEngine sender = open();
  private InMemoryTransferEngine receiver = network.open(config());

  @BeforeEach
  void register() {
    sender.register(List.of(traffic.sourceRange()));
    receiver.register(List.of(traffic.destinationRange()));
  }

  @AfterEach
  void close() {
    faults.releaseWrites();
    faults.dropExpiredWrites();
    sender.close();
    receiver.close();
    threads.shutdownNow();
    arena.close();
  }

  @Test
  void theNextWriteFailsAndOnlyThat() {
    faults.failNextWrite("status=5");
    WriteResult failed = write();
    assertThat(failed.status()).isEqualTo(Status.FAILED);
    assertThat(failed.message()).isEqualTo("status=5");
    assertThat(failed.quiet().toCompletableFuture()).isCompleted();
    assertThat(slotsWritten()).isEmpty();
    assertThat(write().status()).isEqualTo(Status.COMPLETED);
    assertThat(slotsWritten()).hasSize(SLOTS);
  }

  @Test
  void aWriteFailsAfterSomeDescriptors() {
    faults.failNextWrite("status=5", 3);
    assertThat(write().status()).isEqualTo(Status.FAILED);
    assertThat(slotsWritten()).containsExactly(0, 1, 2);
    assertIdle();
  }

  @Test
  void aWriteWithFewerDescriptorsFailsAllTheSame() {
    faults.failNextWrite("status=5", 1000);
    assertThat(write().status()).isEqualTo(Status.FAILED);
    assertThat(slotsWritten()).hasSize(SLOTS);
  }

  @Test
  void faultsAreTakenInTheOrderInWhichTheyWereAskedFor() {
    faults.failNextWrite("first");
    faults.failNextWrite("second", 1);
    try (DescriptorList none = new DescriptorList()) {
      assertThat(sender.write(receiver.address(), none, 1).status()).isEqualTo(Status.COMPLETED);
    }
    assertThat(write().message()).isEqualTo("first");
    assertThat(write().message()).isEqualTo("second");
    assertThat(write().status()).isEqualTo(Status.COMPLETED);
  }

  @Test
  void aHeldWriteStaysUntilItIsReleased() throws Exception {
    faults.holdWrites();
    Future<WriteResult> first = threads.submit(() -> write());
    Future<WriteResult> second = threads.submit(() -> write());
    faults.awaitHeldWrites(2, BOUND);
    assertThat(first.isDone() || second.isDone()).isFalse();
    assertThat(slotsWritten()).isEmpty();
    assertThat(sender.stats().liveBatches()).isEqualTo(2);
    assertThat(sender.stats().descriptorsInFlight()).isEqualTo(2 * SLOTS);
    faults.releaseWrites();
    assertThat(first.get(20, TimeUnit.SECONDS).status()).isEqualTo(Status.COMPLETED);
    assertThat(second.get(20, TimeUnit.SECONDS).status()).isEqualTo(Status.COMPLETED);
    assertThat(slotsWritten()).hasSize(SLOTS);
    assertIdle();
    // Later writes are not held.
    assertThat(write().status()).isEqualTo(Status.COMPLETED);
  }

  @Test
  void anExpiredWriteIsUnderWayUntilItIsFinished() throws Exception {
    faults.holdNextWrite(2);
    Future<WriteResult> writing = threads.submit(() -> write());
    faults.awaitHeldWrites(1, BOUND);
    faults.expireHeldWrites();
    WriteResult result = writing.get(20, TimeUnit.SECONDS);
    CompletableFuture<Void> quiet = result.quiet().toCompletableFuture();
    assertThat(result.status()).isEqualTo(Status.TIMED_OUT);
    assertThat(quiet).isNotDone();
    assertThat(slotsWritten()).containsExactly(0, 1);
    assertThat(sender.stats().liveBatches()).isEqualTo(1);
    assertThat(faults.expiredWrites()).isEqualTo(1);
    assertThat(faults.finishExpiredWrites()).isEqualTo(1);
    assertThat(quiet).isCompleted();
    assertThat(slotsWritten()).hasSize(SLOTS);
    assertIdle();
    assertThat(faults.finishExpiredWrites()).isZero();
  }

  @Test
  void nobodyElseCanCompleteTheQuietStage() throws Exception {
    WriteResult result = expire();
    result.quiet().toCompletableFuture().complete(null);
    assertThat(result.quiet().toCompletableFuture()).isNotDone();
  }

  @Test
  void anExpiredWriteIsDropped() throws Exception {
    WriteResult result = expire();
    faults.dropExpiredWrites();
    assertThat(result.quiet().toCompletableFuture()).isCompleted();
    assertThat(slotsWritten()).isEmpty();
    assertIdle();
  }

  @Test
  void whatArrivesLateIsNotWrittenToMemoryThatWasGivenBack() throws Exception {
    WriteResult result = expire();
    receiver.unregister(List.of(traffic.destinationRange()));
    faults.finishExpiredWrites();
    assertThat(result.quiet().toCompletableFuture()).isCompleted();
    assertThat(slotsWritten()).isEmpty();
    assertIdle();
  }

  @Test
  void aHeldWriteTimesOutWhenTheClockHasPassedItsTime() throws Exception {
    faults.holdNextWrite(0);
    Future<WriteResult> writing = threads.submit(() -> write(Duration.ofSeconds(30)));
    faults.awaitHeldWrites(1, BOUND);
    clock.advance(Duration.ofSeconds(29));
    assertThat(writing.isDone()).isFalse();
    clock.advance(Duration.ofSeconds(1));
    assertThat(writing.get(20, TimeUnit.SECONDS).status()).isEqualTo(Status.TIMED_OUT);
    assertThat(faults.heldWrites()).isZero();
    assertThat(faults.dropExpiredWrites()).isEqualTo(1);
    assertIdle();
  }

  @Test
  void aHeldWriteOutlivesAnInterruptAndKeepsIt() throws Exception {
    faults.holdNextWrite(0);
    CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
    Thread writer =
        Thread.ofPlatform()
            .daemon()
            .start(
                () -> {
                  boolean completed = write().isCompleted();
                  interrupted.complete(completed && Thread.currentThread().isInterrupted());
                });
    faults.awaitHeldWrites(1, BOUND);
    writer.interrupt();
    faults.releaseWrites();
    assertThat(interrupted.get(20, TimeUnit.SECONDS)).isTrue();
  }

  @Test
  void aDelayedWriteGoesOnByTheClock() throws Exception {
    faults.delayWrites(Duration.ofSeconds(5));
    Future<WriteResult> writing = threads.submit(() -> write());
    faults.awaitHeldWrites(1, BOUND);
    clock.advance(Duration.ofSeconds(5));
    assertThat(writing.get(20, TimeUnit.SECONDS).status()).isEqualTo(Status.COMPLETED);
    assertThat(slotsWritten()).hasSize(SLOTS);
  }

  @Test
  void aDelayLongerThanTheTimeoutTimesOut() throws Exception {
    faults.delayWrites(Duration.ofSeconds(5));
    Future<WriteResult> writing = threads.submit(() -> write(Duration.ofSeconds(1)));
    faults.awaitHeldWrites(1, BOUND);
    clock.advance(Duration.ofSeconds(10));
    assertThat(writing.get(20, TimeUnit.SECONDS).status()).isEqualTo(Status.TIMED_OUT);
    assertThat(slotsWritten()).isEmpty();
  }

  @Test
  void closeEndsHeldWritesAsNotQuiet() throws Exception {
    faults.holdNextWrite(0);
    Future<WriteResult> writing = threads.submit(() -> write());
    faults.awaitHeldWrites(1, BOUND);
    sender.close();
    WriteResult result = writing.get(20, TimeUnit.SECONDS);
    assertThat(result.status()).isEqualTo(Status.TIMED_OUT);
    assertThat(result.quiet().toCompletableFuture()).isNotDone();
    faults.finishExpiredWrites();
    assertThat(result.quiet().toCompletableFuture()).isCompleted();
    assertThat(slotsWritten()).isEmpty();
  }

  @Test
  void waitingForHeldWritesThatDoNotComeIsAnError() {
    assertThatThrownBy(() -> faults.awaitHeldWrites(1, Duration.ofMillis(1)))
        .isInstanceOf(AssertionError.class)
        .hasMessageContaining("held_writes=0");
  }

  @Test
  void aPeerIsCutOffAndReconnected() {
    faults.cutOff(receiver.address());
    WriteResult result = write();
    assertThat(result.status()).isEqualTo(Status.FAILED);
    assertThat(result.message()).contains("peer=" + receiver.address());
    assertThat(slotsWritten()).isEmpty();
    faults.reconnect(receiver.address());
    assertThat(write().status()).isEqualTo(Status.COMPLETED);
  }

  @Test
  void aPeerThatWasReplacedIsNotFoundUntilItIsForgotten() {
    assertThat(write().status()).isEqualTo(Status.COMPLETED);
    receiver.close();
    receiver = network.open(config(), new FaultPlan(), receiver.port());
    receiver.register(List.of(traffic.destinationRange()));
    WriteResult result = write();
    assertThat(result.status()).isEqualTo(Status.FAILED);
    assertThat(result.message()).contains("forget it");
    sender.forgetPeer(receiver.address());
    assertThat(write().status()).isEqualTo(Status.COMPLETED);
  }

  @Test
  void aRangeIsRefusedAndTheCallTakenBack() {
    EngineStats before = sender.stats();
    List<MemoryRange> ranges = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      ranges.add(Traffic.range(arena.allocate(SLOT)));
    }
    faults.refuseRange(2);
    // Too few to meet the fault, which stays.
    sender.register(ranges.subList(0, 2));
    sender.unregister(ranges.subList(0, 2));
    assertThatThrownBy(() -> sender.register(ranges))
        .isInstanceOf(TransferEngineException.class)
        .hasMessageContaining("address=" + ranges.get(2).address());
    assertThat(sender.stats()).isEqualTo(before);
    sender.register(ranges);
    assertThat(sender.stats().registeredRanges()).isEqualTo(before.registeredRanges() + 4);
  }

  @Test
  void theNextEngineDoesNotOpen() {
    EngineUnavailableException failure = new EngineUnavailableException("no library", null);
    faults.failNextOpen(failure);
    assertThatThrownBy(() -> provider.open(config())).isSameAs(failure);
    int size = network.size();
    provider.open(config()).close();
    assertThat(network.size()).isEqualTo(size);
    assertThat(provider.opened()).hasSize(2);
    assertThat(provider.name()).isEqualTo("in-memory");
  }

  @Test
  void twoEnginesAtOneAddressAreRefused() {
    assertThatThrownBy(() -> network.open(config(), faults, receiver.port()))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("address=" + receiver.address());
    assertThat(network.find(receiver.address())).isSameAs(receiver);
  }

  @Test
  void arrivalIsDisclaimed() {
    assertThat(sender.completionProvesArrival()).isTrue();
    faults.disclaimArrival();
    assertThat(sender.completionProvesArrival()).isFalse();
  }

  @Test
  void writesAreRecorded() {
    write();
    faults.failNextWrite("status=5");
    write();
    String peer = receiver.address();
    assertThat(sender.writes())
        .containsExactly(
            new InMemoryTransferEngine.Write(peer, SLOTS, SLOTS * (SLOT / 2), Status.COMPLETED),
            new InMemoryTransferEngine.Write(peer, SLOTS, SLOTS * (SLOT / 2), Status.FAILED));
  }

  @Test
  void numbersBelowZeroAreRefused() {
    assertThatThrownBy(() -> faults.failNextWrite("x", -1))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> faults.holdNextWrite(-1)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> faults.refuseRange(-1)).isInstanceOf(IllegalArgumentException.class);
  }

  private InMemoryTransferEngine open() {
    provider.open(config());
    return provider.opened().getFirst();
  }

  private EngineConfig config() {
    return new EngineConfig("10.0.0.1", "tcp", List.of(), null, clock);
  }

  private WriteResult expire() throws Exception {
    faults.holdNextWrite(0);
    Future<WriteResult> writing = threads.submit(() -> write());
    faults.awaitHeldWrites(1, BOUND);
    faults.expireHeldWrites();
    return writing.get(20, TimeUnit.SECONDS);
  }

  private WriteResult write() {
    return write(Duration.ofHours(1));
  }

  /** Writes the first half of every slot. */
  private WriteResult write(Duration timeout) {
    try (DescriptorList list = new DescriptorList()) {
      for (int i = 0; i < SLOTS; i++) {
        traffic.addUnexpected(list, (long) i * SLOT, (long) i * SLOT, SLOT / 2);
      }
      return sender.write(receiver.address(), list, timeout.toNanos());
    }
  }

  private List<Integer> slotsWritten() {
    List<Integer> written = new ArrayList<>();
    for (int i = 0; i < SLOTS; i++) {
      long at = (long) i * SLOT;
      if (traffic.source().get(ValueLayout.JAVA_LONG, at)
          == traffic.destination().get(ValueLayout.JAVA_LONG, at)) {
        written.add(i);
      }
    }
    return written;
  }

  private void assertIdle() {
    assertThat(sender.stats().liveBatches()).isZero();
    assertThat(sender.stats().descriptorsInFlight()).isZero();
  }
}
