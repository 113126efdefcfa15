package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.PeerLayout;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.producer.TransferQueue.Refused;
import dev.mooncake4j.core.producer.TransferQueue.Work;
import dev.mooncake4j.core.rig.TestCache;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.testkit.ManualClock;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Who gets an engine thread, and who none for a while. */
@Timeout(value = 30, unit = TimeUnit.SECONDS)
class TransferQueueTest {
  private final ManualClock clock = new ManualClock();
  private final Arena arena = Arena.ofConfined();
  private final PeerPlan plan = plan();
  private final TransferQueue queue = new TransferQueue(clock, 10);

  private PeerPlan plan() {
    LocalCache cache =
        new TestCache(arena, 1, 4, 32).local(RankLayout.single(), KvCacheSpec.fullAttention(16));
    return PeerPlan.prepare(cache, new PeerLayout(0, 1, 1, cache.regions()));
  }

  @AfterEach
  void close() {
    arena.close();
  }

  private Work work(String session, long layoutId) {
    return new Work(new TransferJob(session, layoutId, plan, List.of()), outcome -> {});
  }

  private Work add(String session) {
    Work work = work(session, 0);
    assertThat(queue.add(work)).isNull();
    return work;
  }

  private void addMany(String session, int count) {
    for (int i = 0; i < count; i++) {
      add(session);
    }
  }

  private Work take() throws InterruptedException {
    return Objects.requireNonNull(queue.take());
  }

  /** Sessions of the next transfers, each of which stays on its thread. */
  private List<String> takeMany(int count) throws InterruptedException {
    List<String> sessions = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      sessions.add(take().job.session());
    }
    return sessions;
  }

  private Refused fail(String session, String reason) throws InterruptedException {
    add(session);
    return queue.done(take(), true, reason);
  }

  /** Whether somebody who asks for a transfer now would have to wait. */
  private boolean nothingToTake() throws InterruptedException {
    Thread taker =
        Thread.ofPlatform()
            .daemon()
            .start(
                () -> {
                  try {
                    queue.take();
                  } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                  }
                });
    while (taker.isAlive() && taker.getState() != Thread.State.WAITING) {
      Thread.onSpinWait();
    }
    boolean waits = taker.isAlive();
    taker.interrupt();
    taker.join();
    return waits;
  }

  @Test
  void theOnlyDecoderHasAllThreads() throws InterruptedException {
    addMany("a", 12);
    assertThat(queue.waiting()).isEqualTo(12);
    assertThat(takeMany(10)).containsOnly("a");
    assertThat(queue.waiting()).isEqualTo(2);
  }

  @Test
  void decodersTakeTurns() throws InterruptedException {
    addMany("a", 3);
    addMany("b", 2);
    add("c");
    assertThat(takeMany(6)).containsExactly("a", "b", "c", "a", "b", "a");
  }

  @Test
  void oneThatHangsLeavesThreadsToTheOthers() throws InterruptedException {
    Work good = add("good");
    queue.done(take(), true, null);
    addMany("hangs", 20);
    assertThat(takeMany(6)).containsOnly("hangs");
    assertThat(nothingToTake()).isTrue();
    for (int i = 0; i < 50; i++) {
      add("good");
      good = take();
      assertThat(good.job.session()).isEqualTo("good");
      queue.done(good, true, null);
    }
    addMany("hangs too", 20);
    assertThat(takeMany(2)).containsOnly("hangs too");
    assertThat(nothingToTake()).isTrue();
    add("good");
    assertThat(take().job.session()).isEqualTo("good");
    // Whoever has none gets the last thread.
    add("another");
    assertThat(take().job.session()).isEqualTo("another");
  }

  @Test
  void oneThatWasNotHeardOfForAMinuteIsNoOther() throws InterruptedException {
    add("good");
    queue.done(take(), true, null);
    clock.advance(Duration.ofSeconds(60));
    addMany("a", 10);
    assertThat(takeMany(10)).containsOnly("a");
  }

  @Test
  void afterSomeFailuresInARowADecoderIsRefusedAtOnceAndTheOthersAreNot()
      throws InterruptedException {
    assertThat(fail("dead", "one").transfers()).isEmpty();
    assertThat(fail("dead", "two").transfers()).isEmpty();
    add("dead");
    Work third = take();
    Work behind = add("dead");
    Refused refused = queue.done(third, true, "no route");
    assertThat(refused.transfers()).containsExactly(behind);
    assertThat(queue.waiting()).isZero();
    assertThat(refused.reason())
        .startsWith("transfer engine: peer=dead ")
        .contains("failed_writes=3")
        .endsWith("no route");
    assertThat(queue.add(work("dead", 0))).isEqualTo(refused.reason());
    add("alive");
    assertThat(take().job.session()).isEqualTo("alive");
  }

  @Test
  void aSuccessInBetweenStartsTheCountAnew() throws InterruptedException {
    for (int i = 0; i < 3; i++) {
      fail("d", "one");
      fail("d", "two");
      add("d");
      queue.done(take(), true, null);
    }
    // Nothing was tried, so nothing was learned.
    fail("d", "one");
    fail("d", "two");
    add("d");
    queue.done(take(), false, null);
    fail("d", "three");
    assertThat(queue.add(work("d", 0))).contains("failed_writes=3");
  }

  private void breakIt(String session) throws InterruptedException {
    for (int i = 0; i < TransferQueue.FAILURES; i++) {
      fail(session, "down");
    }
  }

  @Test
  void oneTransferTriesAgainWithPausesThatDouble() throws InterruptedException {
    breakIt("d");
    long pause = 1;
    for (int i = 0; i < 8; i++) {
      clock.advance(Duration.ofSeconds(pause).minusNanos(1));
      assertThat(queue.add(work("d", 0))).isNotNull();
      clock.advance(Duration.ofNanos(1));
      add("d");
      assertThat(queue.add(work("d", 0))).as("one at a time").isNotNull();
      queue.done(take(), true, "still down");
      pause = Math.min(2 * pause, 30);
    }
    clock.advance(Duration.ofSeconds(pause));
    add("d");
    queue.done(take(), true, null);
    add("d");
    breakIt("e");
    clock.advance(Duration.ofSeconds(1));
    add("e");
  }

  @Test
  void failuresOfWhatWasUnderWayDoNotLengthenThePause() throws InterruptedException {
    addMany("d", 8);
    List<Work> underWay = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      underWay.add(take());
    }
    for (Work work : underWay) {
      queue.done(work, true, "down");
    }
    clock.advance(Duration.ofSeconds(1));
    add("d");
  }

  @Test
  void aNewLayoutIsANewDecoder() throws InterruptedException {
    for (int i = 0; i < TransferQueue.FAILURES; i++) {
      assertThat(queue.add(work("d", 7))).isNull();
      queue.done(take(), true, "down");
    }
    assertThat(queue.add(work("d", 7))).isNotNull();
    assertThat(queue.add(work("d", 0))).as("without a name").isNotNull();
    assertThat(queue.add(work("d", 8))).isNull();
    assertThat(queue.add(work("d", 8))).isNull();
  }

  @Test
  void closedItTakesNothingAndHandsOutWhatIsThere() throws InterruptedException {
    add("good");
    queue.done(take(), true, null);
    addMany("a", 9);
    queue.close();
    assertThat(queue.add(work("b", 0))).contains("closing");
    assertThat(takeMany(9)).containsOnly("a");
    assertThat(queue.take()).isNull();
  }

  @Test
  void eachTransferThatIsAddedFindsOneOfTheThreadsThatWait() throws Exception {
    try (ExecutorService waiting = Executors.newFixedThreadPool(4)) {
      List<Future<Work>> taken = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        taken.add(waiting.submit(this::take));
      }
      addMany("a", 2);
      addMany("b", 2);
      for (Future<Work> work : taken) {
        assertThat(work.get(30, TimeUnit.SECONDS)).isNotNull();
      }
    }
  }

  @Test
  void aTransferThatWaitsForAPlaceIsTakenByAThreadThatWaitsWhenThePlaceIsFree() throws Exception {
    add("b");
    addMany("a", 9);
    List<Work> running = new ArrayList<>();
    // Six of one of two decoders' at most: more wait for a place, with threads left.
    for (int i = 0; i < 7; i++) {
      running.add(take());
    }
    try (ExecutorService waiting = Executors.newSingleThreadExecutor()) {
      Future<Work> next = waiting.submit(this::take);
      for (Work work : running) {
        queue.done(work, true, null);
      }
      assertThat(next.get(30, TimeUnit.SECONDS)).isNotNull();
    }
  }

  private Work early(Asker asker, String transferId) {
    TransferJob.Part part =
        new TransferJob.Part(
            BlockIds.of(1), BlockIds.of(2), new RequestNames("p", transferId, null));
    return new Work(new TransferJob("a:1", 0, plan, List.of(part), null, asker), outcome -> {});
  }

  @Test
  void theNextPieceOfThePrefillThatTriesAgainWaitsForHowThatGoes() throws InterruptedException {
    for (int i = 0; i < TransferQueue.FAILURES; i++) {
      fail("a:1", "down");
    }
    clock.advance(Duration.ofSeconds(2));
    Asker asker = new Asker();
    assertThat(queue.add(early(asker, "t"))).isNull();
    assertThat(queue.add(early(asker, "t"))).as("of the same request").isNull();
    assertThat(queue.add(early(asker, "u"))).contains("left alone");
    assertThat(queue.add(early(new Asker(), "t"))).contains("left alone");
    Work probe = take();
    assertThat(queue.done(probe, true, "still down").transfers()).hasSize(1);
    assertThat(queue.waiting()).isZero();
    clock.advance(Duration.ofSeconds(4));
    assertThat(queue.add(early(asker, "t"))).isNull();
    assertThat(queue.add(early(asker, "t"))).isNull();
    queue.done(take(), true, null);
    queue.done(take(), true, null);
    add("a:1");
  }
}
