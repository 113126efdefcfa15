package dev.mooncake4j.core.worker;

import static dev.mooncake4j.core.worker.WorkerRig.BOUND;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BootstrapUnavailableException;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.WorkerStats;
import dev.mooncake4j.core.rig.TestCache;
import dev.mooncake4j.core.rig.Threads;
import dev.mooncake4j.core.worker.WorkerRig.Node;
import dev.mooncake4j.testkit.ManualClock;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Registering, giving back and taking again, with everything that can go wrong on the way. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class MooncakeWorkerTest {
  private static final WorkerStats NOTHING = new WorkerStats(0, 0, 0, 0, 0, 0, 0, 0);

  private final Threads threads = Threads.now();
  private final WorkerRig rig = new WorkerRig();

  @AfterEach
  void nothingIsLeft() {
    rig.close();
    threads.assertEnded();
  }

  private void fetch(Node prefiller, Node decoder, int pattern) throws InterruptedException {
    prefiller.cache.fill(pattern, 1, 2);
    decoder.pull("d" + pattern, "t" + pattern, 5, 6);
    prefiller.ready("p" + pattern, "t" + pattern, 1, 2);
    assertThat(decoder.await().received()).containsExactly("d" + pattern);
    assertThat(decoder.cache.holds(pattern, 5)).isTrue();
    assertThat(decoder.cache.holds(pattern, 6)).isTrue();
    assertThat(prefiller.await().sent())
        .extracting(StepResult.Sent::requestId)
        .containsExactly("p" + pattern);
  }

  private static void assertIdle(Node node) {
    WorkerStats idle = node.worker.stats();
    assertThat(idle).isEqualTo(new WorkerStats(0, 0, 0, 0, 0, 0, 0, idle.registeredBytes()));
  }

  @Test
  void blocksGoFromOneWorkerToTheOtherAndTheFiguresGoBackToNothing() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    assertThat(rig.bootstrap.registered().getFirst().address()).startsWith("tcp://127.0.0.1:");
    for (int i = 0; i < 5; i++) {
      fetch(prefiller, decoder, i);
    }
    assertIdle(prefiller);
    assertIdle(decoder);
    assertThat(prefiller.worker.isHealthy()).isTrue();
    assertThat(prefiller.worker.transport()).isEqualTo("in-memory");
    assertThat(threads.started("m4j-engine-")).as("num_workers, of the prefiller").hasSize(2);
    prefiller.worker.close();
    decoder.worker.close();
    assertThat(prefiller.worker.stats()).isEqualTo(NOTHING);
    assertThat(prefiller.worker.isHealthy()).isFalse();
    assertThat(rig.bootstrap.registered()).isEmpty();
    assertThat(prefiller.engine.isClosed()).isTrue();
  }

  @Test
  void theFiguresTellWhatIsUnderWay() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    prefiller.faults.holdWrites();
    decoder.pull("d1", "t1", 5);
    decoder.pull("d2", "t2", 6);
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p3", "t3", 3);
    prefiller.faults.awaitHeldWrites(1, BOUND);
    Awaitility.await().atMost(BOUND).until(() -> prefiller.worker.stats().waitingPulls() == 1);
    WorkerStats stats = prefiller.worker.stats();
    assertThat(stats.sends()).isEqualTo(2);
    assertThat(stats.leases()).isEqualTo(2);
    assertThat(stats.queuedTransfers()).isEqualTo(1);
    assertThat(stats.writingTransfers()).isEqualTo(1);
    assertThat(stats.pinnedBlocks()).isEqualTo(2);
    assertThat(stats.liveBatches()).isEqualTo(1);
    assertThat(decoder.worker.stats().pulls()).isEqualTo(2);
    prefiller.faults.releaseWrites();
    assertThat(decoder.await().received()).containsExactly("d1");
    prefiller.worker.release("t2");
    prefiller.worker.release("t3");
    assertThat(decoder.await().failed()).hasSize(1);
    Awaitility.await().atMost(BOUND).untilAsserted(() -> assertIdle(prefiller));
    assertIdle(decoder);
  }

  // Registering.

  private static KvCacheLayout twoMemories(Arena arena) {
    KvMemory first = KvMemory.host(arena.allocate(1024, 64));
    KvMemory second = KvMemory.host(arena.allocate(1024, 64));
    return new KvCacheLayout(
        List.of(
            KvCacheRegion.of("a", 0, first, 0, 32, 32),
            KvCacheRegion.of("b", 1, second, 0, 32, 32)));
  }

  @Test
  void memoryThatIsRefusedLeavesNothingRegisteredAndMayBeTriedAgain() throws Exception {
    try (Arena arena = Arena.ofShared()) {
      Node prefiller = rig.open(KvRole.PRODUCER);
      prefiller.faults.refuseRange(1);
      KvCacheLayout layout = twoMemories(arena);
      assertThatThrownBy(() -> prefiller.worker.registerKvCaches(layout))
          .isInstanceOf(TransferEngineException.class);
      assertThat(prefiller.worker.stats()).isEqualTo(NOTHING);
      assertThat(rig.bootstrap.registered()).isEmpty();
      prefiller.worker.registerKvCaches(layout);
      assertThat(prefiller.worker.stats().registeredBytes()).isEqualTo(2048);
      assertThat(rig.bootstrap.registered()).hasSize(1);
      prefiller.worker.close();
    }
  }

  @Test
  void aBootstrapServerThatRefusesLeavesNothingRegisteredAndMayBeTriedAgain() throws Exception {
    Node prefiller = rig.open(KvRole.PRODUCER);
    rig.bootstrap.failRegistrations(new BootstrapUnavailableException("not there", null));
    for (int i = 0; i < 2; i++) {
      assertThatThrownBy(() -> prefiller.worker.registerKvCaches(prefiller.cache.layout()))
          .isInstanceOf(BootstrapUnavailableException.class)
          .hasMessage("not there");
      assertThat(prefiller.worker.stats()).isEqualTo(NOTHING);
    }
    rig.bootstrap.failRegistrations(null);
    prefiller.register();
    rig.tellBootstrap();
    fetch(prefiller, rig.decoder(), 3);
  }

  @Test
  void aHookThatThrowsOnAnEngineThreadLeavesNothingRegisteredAndMayBeTriedAgain() throws Exception {
    AtomicBoolean fails = new AtomicBoolean(true);
    Node prefiller =
        rig.open(
            KvRole.PRODUCER,
            hooks ->
                hooks.withEngineThreadStart(
                    () -> {
                      if (fails.get()) {
                        throw new IllegalStateException("no such device");
                      }
                    }));
    assertThatThrownBy(() -> prefiller.worker.registerKvCaches(prefiller.cache.layout()))
        .isInstanceOf(KvConnectorException.class)
        .hasRootCauseMessage("no such device");
    assertThat(prefiller.worker.stats()).isEqualTo(NOTHING);
    assertThat(rig.bootstrap.registered()).isEmpty();
    Awaitility.await()
        .atMost(BOUND)
        .untilAsserted(() -> assertThat(threads.started("m4j-engine-")).isEmpty());
    fails.set(false);
    prefiller.register();
    rig.tellBootstrap();
    fetch(prefiller, rig.decoder(), 4);
  }

  @Test
  void registeringTwiceIsAnErrorAndTheFirstStays() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    for (Node node : List.of(prefiller, decoder)) {
      assertThatThrownBy(() -> node.worker.registerKvCaches(node.cache.layout()))
          .isInstanceOf(KvConnectorException.class)
          .hasMessageContaining("registered already");
      assertThat(node.engine.stats().registeredRanges()).isEqualTo(1);
    }
    fetch(prefiller, decoder, 5);
  }

  @Test
  void afterGivingTheMemoryBackCachesCanBeRegisteredAgainOrOthers() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    for (Node node : List.of(prefiller, decoder)) {
      node.worker.unregisterKvCaches();
      node.worker.registerKvCaches(node.cache.layout());
      assertThat(node.engine.stats().registeredRanges()).isEqualTo(1);
      assertThatThrownBy(() -> node.worker.restoreKvCaches())
          .isInstanceOf(KvConnectorException.class)
          .hasMessageContaining("no kv caches were given back");
    }
    fetch(prefiller, decoder, 5);
  }

  @Test
  void aGroupThatTheSpecLacksIsRefusedBeforeAnythingIsRegistered() {
    try (Arena arena = Arena.ofShared()) {
      KvMemory memory = KvMemory.host(arena.allocate(1024, 64));
      Node decoder = rig.open(KvRole.CONSUMER);
      KvCacheLayout layout =
          new KvCacheLayout(
              List.of(new KvCacheRegion("a", 0, 3, memory, 0, 32, 32, 32, List.of(), -1)));
      assertThatThrownBy(() -> decoder.worker.registerKvCaches(layout))
          .isInstanceOf(KvConnectorException.class)
          .hasMessageContaining("group_index=3");
      assertThat(decoder.engine.stats().registeredRanges()).isZero();
      decoder.worker.close();
    }
  }

  // Sleep mode.

  @Test
  void givingBackWaitsForTransfersAndTakingAgainGoesOn() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    fetch(prefiller, decoder, 1);
    prefiller.faults.holdWrites();
    prefiller.cache.fill(2, 3);
    decoder.pull("d", "t", 9);
    prefiller.ready("p", "t", 3);
    prefiller.faults.awaitHeldWrites(1, BOUND);
    CompletableFuture<Void> sender =
        CompletableFuture.runAsync(prefiller.worker::unregisterKvCaches);
    CompletableFuture<Void> receiver =
        CompletableFuture.runAsync(decoder.worker::unregisterKvCaches);
    // New pulls are refused as soon as it has begun.
    Awaitility.await()
        .atMost(BOUND)
        .until(
            () -> {
              decoder.pull("refused", "u", 10);
              return decoder.await().failed().getFirst().reason().contains("no kv caches");
            });
    assertThat(prefiller.engine.stats().registeredRanges()).isEqualTo(1);
    assertThat(decoder.engine.stats().registeredRanges()).isEqualTo(1);
    prefiller.faults.releaseWrites();
    sender.get(BOUND.toSeconds(), TimeUnit.SECONDS);
    receiver.get(BOUND.toSeconds(), TimeUnit.SECONDS);
    assertThat(decoder.await().received()).containsExactly("d");
    assertThat(decoder.cache.holds(2, 9)).isTrue();
    assertThat(prefiller.await().sent()).hasSize(1);
    assertThat(prefiller.engine.stats().registeredRanges()).isZero();
    assertThat(decoder.engine.stats().registeredRanges()).isZero();
    assertThat(rig.bootstrap.registered()).as("the rank is still there").hasSize(1);

    prefiller.worker.restoreKvCaches();
    decoder.worker.restoreKvCaches();
    fetch(prefiller, decoder, 6);
    assertIdle(prefiller);
    assertIdle(decoder);
  }

  @Test
  void givingBackAndTakingAgainFollowEachOther() {
    Node decoder = rig.open(KvRole.CONSUMER);
    assertThatThrownBy(decoder.worker::unregisterKvCaches)
        .isInstanceOf(KvConnectorException.class)
        .hasMessageContaining("no kv caches are registered");
    assertThatThrownBy(decoder.worker::restoreKvCaches)
        .isInstanceOf(KvConnectorException.class)
        .hasMessageContaining("no kv caches were given back");
    decoder.register();
    assertThatThrownBy(decoder.worker::restoreKvCaches).isInstanceOf(KvConnectorException.class);
    decoder.worker.unregisterKvCaches();
    assertThatThrownBy(decoder.worker::unregisterKvCaches).isInstanceOf(KvConnectorException.class);
    decoder.worker.restoreKvCaches();
    assertThat(decoder.engine.stats().registeredRanges()).isEqualTo(1);
  }

  @Test
  void takingAgainThatIsRefusedMayBeTriedAgain() {
    Node decoder = rig.decoder();
    decoder.worker.unregisterKvCaches();
    decoder.faults.refuseRange(0);
    assertThatThrownBy(decoder.worker::restoreKvCaches).isInstanceOf(TransferEngineException.class);
    assertThat(decoder.engine.stats().registeredRanges()).isZero();
    decoder.worker.restoreKvCaches();
    assertThat(decoder.engine.stats().registeredRanges()).isEqualTo(1);
  }

  @Test
  void memoryOfAnArenaThatWasClosedIsToldBeforeItIsRegistered() {
    Node decoder = rig.open(KvRole.CONSUMER);
    try (Arena arena = Arena.ofShared()) {
      decoder.worker.registerKvCaches(new TestCache(arena, 2, 4, 32).layout());
      decoder.worker.unregisterKvCaches();
    }
    assertThatThrownBy(decoder.worker::restoreKvCaches)
        .isInstanceOf(KvConnectorException.class)
        .hasMessageContaining("arena")
        .hasMessageContaining("layer=model.layers.0");
    assertThat(decoder.engine.stats().registeredRanges()).isZero();
    assertThat(decoder.worker.isHealthy()).isTrue();
  }

  // The hook.

  @Test
  void theHookIsToldOfResultsAndMayThrow() throws Exception {
    AtomicInteger told = new AtomicInteger();
    Node prefiller = rig.prefiller();
    Node decoder =
        rig.open(
            KvRole.CONSUMER,
            hooks ->
                hooks.withResultsReady(
                    () -> {
                      told.incrementAndGet();
                      throw new IllegalStateException("made to fail");
                    }));
    decoder.register();
    fetch(prefiller, decoder, 1);
    fetch(prefiller, decoder, 2);
    // A result can be taken a moment before the hook is told of it.
    Awaitility.await().atMost(WorkerRig.BOUND).until(() -> told.get() == 2);
    assertThat(decoder.worker.isHealthy()).isTrue();
  }

  @Test
  void theHookMayAskForFiguresAndCloseTheWorker() throws Exception {
    Node prefiller = rig.prefiller();
    CompletableFuture<WorkerStats> seen = new CompletableFuture<>();
    Node[] own = new Node[1];
    Node decoder =
        rig.open(
            KvRole.CONSUMER,
            hooks ->
                hooks.withResultsReady(
                    () -> {
                      seen.complete(own[0].worker.stats());
                      own[0].worker.close();
                    }));
    own[0] = decoder;
    decoder.register();
    decoder.pull("d", "t", 5);
    prefiller.ready("p", "t", 1);
    assertThat(seen.get(BOUND.toSeconds(), TimeUnit.SECONDS).registeredBytes()).isPositive();
    assertThat(decoder.await().received()).containsExactly("d");
    Awaitility.await().atMost(BOUND).until(() -> decoder.closings.get() == 1);
    assertThat(decoder.engine.isClosed()).isTrue();
    Awaitility.await()
        .atMost(BOUND)
        .untilAsserted(() -> assertThat(threads.started("m4j-loop-decoder")).isEmpty());
  }

  // After the end.

  @Test
  void aClosedWorkerTakesNothing() throws Exception {
    Node decoder = rig.decoder();
    decoder.worker.close();
    List<Runnable> calls =
        List.of(
            () -> decoder.worker.startStep(StepPlan.empty()),
            () -> decoder.worker.release("t"),
            () -> decoder.worker.registerKvCaches(decoder.cache.layout()),
            decoder.worker::unregisterKvCaches,
            decoder.worker::restoreKvCaches);
    for (Runnable call : calls) {
      assertThatThrownBy(call::run)
          .isInstanceOf(IllegalStateException.class)
          .hasMessageContaining("closed");
    }
    assertThat(decoder.worker.poll().isEmpty()).isTrue();
    assertThat(decoder.await().isEmpty()).as("returns at once").isTrue();
    assertThat(decoder.worker.stats()).isEqualTo(NOTHING);
    assertThat(decoder.worker.isHealthy()).isFalse();
  }

  @Test
  void aLoopThatDiesFailsEverythingAndSaysSo() throws Exception {
    AtomicBoolean dies = new AtomicBoolean();
    CompletableFuture<Void> once = new CompletableFuture<>();
    Node decoder = rig.open(KvRole.CONSUMER, hooks -> hooks, new DyingChannel(dies, once));
    decoder.register();
    decoder.pull("d", "t", 5);
    Awaitility.await().atMost(BOUND).until(() -> decoder.worker.stats().pulls() == 1);
    dies.set(true);
    decoder.worker.release("nothing");
    StepResult result = decoder.await();
    assertThat(result.failed()).hasSize(1);
    assertThat(result.failed().getFirst().stage()).isEqualTo(FailureStage.SHUTDOWN);
    assertThat(result.failed().getFirst().reason()).contains("loop died");
    Awaitility.await().atMost(BOUND).until(() -> !decoder.worker.isHealthy());
    assertThatThrownBy(() -> decoder.pull("late", "u", 6))
        .isInstanceOf(KvConnectorException.class)
        .hasMessageContaining("died");
    long start = System.nanoTime();
    decoder.worker.close();
    assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(8));
    assertThat(decoder.closings).hasValue(1);
  }

  @Test
  void anEntryAtAServerOfAnotherProcessIsWatchedAndAtOnesOwnIsNot() {
    ManualClock clock = new ManualClock();
    rig.open(KvRole.PRODUCER, hooks -> hooks.withClock(clock)).register();
    rig.place = RegistrationPlace.here(WorkerRig.BOOTSTRAP);
    Node own = rig.open(KvRole.PRODUCER, hooks -> hooks.withClock(clock));
    own.register();
    rig.bootstrap.answerAlways(List.of());
    clock.advance(Duration.ofSeconds(10));
    // The first has registered again, for the server knows nobody.
    Awaitility.await()
        .atMost(WorkerRig.BOUND)
        .until(() -> rig.bootstrap.registered().size(), size -> size == 3);
    assertThat(own.worker.stats().pulls()).as("a turn of the other one's loop").isZero();
    assertThat(rig.bootstrap.asked()).isEqualTo(1);
  }
}
