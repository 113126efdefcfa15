package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.PeerLayout;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.producer.TransferJob.Outcome;
import dev.mooncake4j.core.producer.TransferJob.Part;
import dev.mooncake4j.core.rig.TestCache;
import dev.mooncake4j.core.rig.Threads;
import dev.mooncake4j.core.trace.RecordedStages;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.testkit.FaultPlan;
import dev.mooncake4j.testkit.InMemoryNetwork;
import dev.mooncake4j.testkit.InMemoryTransferEngine;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import jdk.jfr.consumer.RecordedEvent;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Engine threads, with an engine in memory. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
class TransferPoolTest {
  private static final Duration BOUND = Duration.ofSeconds(20);
  private static final KvCacheSpec SPEC = KvCacheSpec.fullAttention(16);

  private final Threads threads = Threads.now();
  private final Arena arena = Arena.ofShared();
  private final InMemoryNetwork network = new InMemoryNetwork();
  private final FaultPlan faults = new FaultPlan();
  private final InMemoryTransferEngine engine =
      network.open(new EngineConfig("127.0.0.1", "tcp", List.of(), null, NanoClock.SYSTEM), faults);
  private final InMemoryTransferEngine peer =
      network.open(new EngineConfig("127.0.0.1", "tcp", List.of(), null, NanoClock.SYSTEM));
  private final TestCache source = new TestCache(arena, 2, 16, 32);
  private final TestCache destination = new TestCache(arena, 2, 16, 32);
  private final PeerPlan plan = plan();
  private final BlockingQueue<Outcome> outcomes = new LinkedBlockingQueue<>();
  private TransferPool pool = start(2);

  private PeerPlan plan() {
    RankLayout rank = RankLayout.single();
    LocalCache local = source.local(rank, SPEC);
    LocalCache remote = destination.local(rank, SPEC);
    engine.register(source.ranges());
    peer.register(destination.ranges());
    return PeerPlan.prepare(local, new PeerLayout(0, 1, 1, remote.regions()));
  }

  private TransferPool start(int count) {
    return TransferPool.start(engine, NanoClock.SYSTEM, count, "test", () -> {});
  }

  @AfterEach
  void close() {
    faults.releaseWrites();
    pool.close(BOUND.toNanos());
    threads.assertEnded();
    arena.close();
  }

  private static Part part(int local, int... remote) {
    return new Part(BlockIds.of(local), BlockIds.of(remote));
  }

  private void submit(Part... parts) {
    pool.submit(new TransferJob(peer.address(), 0, plan, List.of(parts)), outcomes::add);
  }

  private Outcome outcome() throws InterruptedException {
    Outcome outcome = outcomes.poll(BOUND.toSeconds(), TimeUnit.SECONDS);
    assertThat(outcome).as("told in time").isNotNull();
    return outcome;
  }

  @Test
  void aTransferIsPlannedWrittenAndTold() throws InterruptedException {
    source.fill(1, 3);
    source.fill(2, 4);
    submit(part(3, 7), part(4, 9));
    Outcome outcome = outcome();
    assertThat(outcome.failures()).containsExactly(null, null);
    assertThat(outcome.engineFailed()).isFalse();
    assertThat(outcome.bytes()).isEqualTo(128);
    assertThat(outcome.descriptors()).isEqualTo(4);
    assertThat(outcome.durationNanos()).isNotNegative();
    assertThat(destination.holds(1, 7)).isTrue();
    assertThat(destination.holds(2, 9)).isTrue();
    assertThat(pool.pending()).isZero();
  }

  @Test
  void blocksOfTwoRequestsThatLieSideBySideAreOneCopy() throws InterruptedException {
    source.fill(1, 3);
    source.fill(2, 4);
    submit(part(3, 7), part(4, 8), part(5, 2));
    Outcome outcome = outcome();
    assertThat(outcome.failures()).containsExactly(null, null, null);
    assertThat(outcome.bytes()).isEqualTo(3 * 64);
    assertThat(outcome.descriptors()).as("two in each layer").isEqualTo(4);
    assertThat(destination.holds(1, 7)).isTrue();
    assertThat(destination.holds(2, 8)).isTrue();
  }

  @Test
  void aPartThatCannotBePlannedHarmsNoOther() throws InterruptedException {
    source.fill(1, 3);
    submit(part(4, 5, 6), part(3, 7), part(5, 99_999_999));
    Outcome outcome = outcome();
    assertThat(outcome.failures().get(0)).contains("blocks");
    assertThat(outcome.failures().get(1)).isNull();
    assertThat(outcome.engineFailed()).isFalse();
    assertThat(destination.holds(1, 7)).isTrue();
  }

  @Test
  void whatWaitsAndIsWrittenIsRecordedByRequest() throws InterruptedException {
    RequestNames one = new RequestNames("p1", "t1", null);
    RequestNames two = new RequestNames("p2", "t2", null);
    try (RecordedStages recorded = new RecordedStages()) {
      submit(
          new Part(BlockIds.of(3), BlockIds.of(7), one),
          new Part(BlockIds.of(4), BlockIds.of(5, 6), two));
      assertThat(outcome().failures().getFirst()).isNull();
      faults.failNextWrite("link down");
      submit(new Part(BlockIds.of(3, 5), BlockIds.of(8, 12), two));
      assertThat(outcome().engineFailed()).isTrue();

      List<RecordedEvent> events = recorded.events();
      assertThat(events)
          .extracting(RecordedStages::text)
          .containsExactlyInAnyOrder(
              "prefiller queue p1 t1 taken",
              "prefiller queue p2 t2 taken",
              "prefiller write p1 t1 written",
              "prefiller write p2 t2 failed",
              "prefiller queue p2 t2 taken",
              "prefiller write p2 t2 failed");
      assertThat(events)
          .filteredOn(event -> event.getString("stage").equals("write"))
          .extracting(
              event -> event.getLong("bytes"),
              event -> event.getInt("descriptors"),
              event -> event.getInt("blocks"))
          .containsExactlyInAnyOrder(tuple(64L, 2, 1), tuple(0L, 0, 2), tuple(128L, 4, 2));
      assertThat(events.getLast().getString("reason")).contains("link down");
      assertThat(events.getLast().getString("peer")).isEqualTo(peer.address());
    }
  }

  @Test
  void ofRequestsThatShareAWriteEachHasItsBytesAndAllOfTheCopies() throws InterruptedException {
    try (RecordedStages recorded = new RecordedStages()) {
      submit(
          new Part(BlockIds.of(3), BlockIds.of(7), new RequestNames("p1", "t1", null)),
          new Part(BlockIds.of(4, 5), BlockIds.of(8, 1), new RequestNames("p2", "t2", null)));
      assertThat(outcome().failures()).containsExactly(null, null);
      assertThat(recorded.events())
          .filteredOn(event -> event.getString("stage").equals("write"))
          .extracting(event -> event.getLong("bytes"), event -> event.getInt("descriptors"))
          .containsExactlyInAnyOrder(tuple(64L, 4), tuple(128L, 4));
    }
  }

  @Test
  void nothingToWriteIsNotWritten() throws InterruptedException {
    submit(part(4, 5, 6));
    assertThat(outcome().descriptors()).isZero();
    assertThat(engine.writes()).isEmpty();
  }

  @Test
  void memoryWhoseArenaIsClosedIsNotReadAndNobodyElseSuffers() throws InterruptedException {
    RankLayout rank = RankLayout.single();
    PeerPlan closed;
    try (Arena early = Arena.ofShared()) {
      TestCache gone = new TestCache(early, 2, 16, 32);
      closed =
          PeerPlan.prepare(
              gone.local(rank, SPEC),
              new PeerLayout(0, 1, 1, destination.local(rank, SPEC).regions()));
    }
    for (int i = 0; i < 10; i++) {
      TransferJob job = new TransferJob(peer.address(), 0, closed, List.of(part(3, 7), part(4, 9)));
      pool.submit(job, outcomes::add);
      Outcome outcome = outcome();
      assertThat(outcome.failures())
          .allSatisfy(f -> assertThat(f).contains("layer=model.layers.0").contains("is closed"));
      assertThat(outcome.engineFailed()).isFalse();
    }
    assertThat(engine.writes()).isEmpty();
    source.fill(1, 3);
    submit(part(3, 7));
    assertThat(outcome().failures()).as("the decoder is not left alone for it").containsOnlyNulls();
    assertThat(destination.holds(1, 7)).isTrue();
  }

  @Test
  void anEngineFailureFailsEveryPartThatWasPlanned() throws InterruptedException {
    faults.failNextWrite("status=-7");
    submit(part(3, 7), part(4, 5, 6));
    Outcome outcome = outcome();
    assertThat(outcome.engineFailed()).isTrue();
    assertThat(outcome.failures().get(0)).isEqualTo("transfer engine: status=-7");
    assertThat(outcome.failures().get(1)).contains("blocks").doesNotContain("transfer engine");
  }

  @Test
  void aWriteOutOfTimeIsToldWhenItIsQuiet() throws InterruptedException {
    faults.holdNextWrite(1);
    submit(part(3, 7));
    faults.awaitHeldWrites(1, BOUND);
    faults.expireHeldWrites();
    // Its thread takes the next transfer, whose end is told while the first is not quiet.
    submit(part(4, 9));
    assertThat(outcome().engineFailed()).isFalse();
    Awaitility.await().atMost(BOUND).until(() -> faults.expiredWrites() == 1);
    assertThat(outcomes).isEmpty();
    assertThat(pool.pending()).isEqualTo(1);
    faults.finishExpiredWrites();
    Outcome late = outcome();
    assertThat(late.engineFailed()).isTrue();
    assertThat(late.failures().getFirst()).startsWith("transfer engine: ");
    assertThat(pool.pending()).isZero();
  }

  @Test
  void threadsWorkAtOnceAndFurtherTransfersQueue() throws InterruptedException {
    faults.holdWrites();
    for (int i = 0; i < 5; i++) {
      submit(part(i, i));
    }
    faults.awaitHeldWrites(2, BOUND);
    assertThat(pool.pending()).isEqualTo(5);
    assertThat(faults.heldWrites()).isEqualTo(2);
    faults.releaseWrites();
    for (int i = 0; i < 5; i++) {
      assertThat(outcome().engineFailed()).isFalse();
    }
    assertThat(pool.pending()).isZero();
  }

  @Test
  void whatWaitsForADecoderThatIsGoneIsNotWritten() throws InterruptedException {
    faults.holdWrites();
    submit(part(1, 1));
    submit(part(2, 2));
    faults.awaitHeldWrites(2, BOUND);
    Asker asker = new Asker();
    source.fill(1, 3);
    pool.submit(
        new TransferJob(peer.address(), 0, plan, List.of(part(3, 7), part(4, 8)), null, asker),
        outcomes::add);
    submit(part(5, 9));
    asker.leave();
    faults.releaseWrites();
    List<Outcome> told = List.of(outcome(), outcome(), outcome(), outcome());
    assertThat(told)
        .filteredOn(outcome -> outcome.failures().size() == 2)
        .singleElement()
        .satisfies(
            outcome -> {
              assertThat(outcome.failures()).containsOnly(Asker.GONE);
              assertThat(outcome.engineFailed()).isFalse();
              assertThat(outcome.descriptors()).isZero();
            });
    assertThat(told)
        .filteredOn(outcome -> outcome.failures().size() == 1)
        .allSatisfy(outcome -> assertThat(outcome.failures()).containsOnlyNulls());
    assertThat(destination.holds(1, 7)).isFalse();
    assertThat(engine.writes()).hasSize(3);
    assertThat(pool.pending()).isZero();
  }

  @Test
  void transfersToADecoderWhoseWritesFailAreRefusedAtOnce() throws InterruptedException {
    for (int i = 0; i < TransferQueue.FAILURES; i++) {
      faults.failNextWrite("unreachable");
      submit(part(3, 7));
      assertThat(outcome().failures().getFirst()).isEqualTo("transfer engine: unreachable");
    }
    submit(part(3, 7), part(4, 8));
    Outcome refused = outcome();
    assertThat(refused.descriptors()).isZero();
    assertThat(refused.failures())
        .hasSize(2)
        .allSatisfy(f -> assertThat(f).contains("peer=" + peer.address()).endsWith("unreachable"));
    assertThat(pool.pending()).isZero();
  }

  @Test
  void anEngineThatThrowsFailsTheTransferAndTheThreadGoesOn() throws InterruptedException {
    engine.close();
    for (int i = 0; i < 4; i++) {
      submit(part(3, 7));
      assertThat(outcome().failures().getFirst()).contains("closed");
    }
    assertThat(pool.pending()).isZero();
  }

  @Test
  void closingRefusesWhatIsQueuedAndWhatComes() throws InterruptedException {
    faults.holdWrites();
    submit(part(1, 1));
    submit(part(2, 2));
    faults.awaitHeldWrites(2, BOUND);
    submit(part(3, 3));
    assertThat(pool.close(1)).as("two are writing").isFalse();
    submit(part(4, 4));
    assertThat(outcome().failures().getFirst()).contains("closing");
    faults.releaseWrites();
    assertThat(pool.close(BOUND.toNanos())).isTrue();
    int closing = 0;
    for (int i = 0; i < 3; i++) {
      String failure = outcome().failures().getFirst();
      closing += failure == null ? 0 : 1;
    }
    assertThat(closing).as("the third never began").isEqualTo(1);
    assertThat(outcomes).isEmpty();
    assertThat(pool.pending()).isZero();
  }

  @Test
  void theHookRunsOnEachThreadBeforeItIsUsed() {
    AtomicInteger ran = new AtomicInteger();
    pool.close(BOUND.toNanos());
    pool =
        TransferPool.start(
            engine,
            NanoClock.SYSTEM,
            5,
            "hooked",
            () -> {
              assertThat(Thread.currentThread().getName()).startsWith("m4j-engine-hooked-");
              assertThat(Thread.currentThread().isDaemon()).isTrue();
              ran.incrementAndGet();
            });
    assertThat(ran).hasValue(5);
  }

  @Test
  void aHookThatThrowsOnOneThreadStartsNone() {
    AtomicInteger ran = new AtomicInteger();
    assertThatThrownBy(
            () ->
                TransferPool.start(
                    engine,
                    NanoClock.SYSTEM,
                    4,
                    "failing",
                    () -> {
                      if (ran.incrementAndGet() == 3) {
                        throw new IllegalStateException("no device");
                      }
                    }))
        .isInstanceOf(KvConnectorException.class)
        .hasMessageContaining("engine_thread_start")
        .hasRootCauseMessage("no device");
    Awaitility.await()
        .atMost(BOUND)
        .until(() -> threads.started("m4j-engine-failing"), List::isEmpty);
  }

  @Test
  void closingTwiceIsQuiet() {
    assertThat(pool.close(BOUND.toNanos())).isTrue();
    assertThat(pool.close(BOUND.toNanos())).isTrue();
  }
}
