package dev.mooncake4j.core.worker;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.config.CapturedLog;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.discovery.RankRegistration;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.rig.FakeBootstrap;
import dev.mooncake4j.testkit.ManualClock;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class RegistrationWatchTest {
  private static final String SERVER = "http://p:8998";
  private static final RankRegistration RANK = new RankRegistration("engine", 0, 1, 0, "tcp://h:1");

  private final ManualClock clock = new ManualClock();
  private final EventLoop loop = new EventLoop(clock);
  private final FakeBootstrap bootstrap = new FakeBootstrap();
  private final RegistrationWatch watch = new RegistrationWatch(loop, bootstrap, SERVER);

  private static EngineAddresses engine(int dpRank, String id, int tpRank, String address) {
    return new EngineAddresses(dpRank, id, Map.of(tpRank, Map.of(0, address)));
  }

  private void pass(Duration time) {
    clock.advance(time);
    loop.runDue();
    loop.runDue();
  }

  private void turn(EngineAddresses... engines) {
    pass(Duration.ofSeconds(10));
    assertThat(bootstrap.openQuestions()).containsExactly(SERVER);
    bootstrap.answer(engines);
    loop.runDue();
  }

  @Test
  void asksOnceInTenSecondsAndOneQuestionAtATime() {
    watch.begin(RANK);
    watch.begin(RANK);
    assertThat(bootstrap.asked()).isZero();
    pass(Duration.ofMillis(9_999));
    assertThat(bootstrap.asked()).isZero();
    pass(Duration.ofMillis(1));
    assertThat(bootstrap.asked()).isEqualTo(1);
    pass(Duration.ofMinutes(5));
    assertThat(bootstrap.asked()).as("while the server is silent").isEqualTo(1);
    bootstrap.answer(engine(0, "engine", 1, "tcp://h:1"));
    loop.runDue();
    pass(Duration.ofMillis(9_999));
    assertThat(bootstrap.asked()).isEqualTo(1);
    pass(Duration.ofMillis(1));
    assertThat(bootstrap.asked()).isEqualTo(2);
    assertThat(bootstrap.registered()).isEmpty();
  }

  @Test
  void aRankThatIsForgottenRegistersAgain() {
    watch.begin(RANK);
    turn();
    assertThat(bootstrap.registered()).containsExactly(RANK);
    turn(engine(0, "engine", 1, "tcp://h:1"));
    assertThat(bootstrap.registered()).containsExactly(RANK);
  }

  @Test
  void theOtherRanksOfItsEngineAndOtherEnginesDoNotStandForIt() {
    watch.begin(RANK);
    turn(engine(0, "engine", 0, "tcp://h:1"), engine(1, "another", 1, "tcp://h:1"));
    assertThat(bootstrap.registered()).containsExactly(RANK);
  }

  @Test
  void aPlaceThatIsAnothersIsLeftToHimAndToldOnce() {
    watch.begin(RANK);
    try (CapturedLog log = new CapturedLog()) {
      turn(engine(0, "successor", 1, "tcp://h:1"));
      turn(engine(0, "engine", 1, "tcp://elsewhere:1"));
      turn(engine(0, "successor", 0, "tcp://h:1"));
      assertThat(bootstrap.registered()).isEmpty();
      assertThat(log.lines("WARN")).singleElement().asString().contains("is another's now");
      turn();
      assertThat(bootstrap.registered()).as("when he has left").containsExactly(RANK);
    }
  }

  @Test
  void aServerThatIsAwayIsAskedOnAndToldOnce() {
    watch.begin(RANK);
    try (CapturedLog log = new CapturedLog()) {
      for (int i = 0; i < 3; i++) {
        pass(Duration.ofSeconds(10));
        bootstrap.fail(new IllegalStateException("connection refused"));
        loop.runDue();
      }
      assertThat(log.lines("WARN"))
          .singleElement()
          .asString()
          .contains("does not answer", "connection refused");
      turn(engine(0, "engine", 1, "tcp://h:1"));
      assertThat(log.lines("INFO")).singleElement().asString().contains("knows this rank again");
      bootstrap.failQueries(new IllegalStateException("no thread"));
      pass(Duration.ofSeconds(10));
      bootstrap.failQueries(null);
      turn();
      assertThat(bootstrap.registered()).containsExactly(RANK);
    }
  }

  @Test
  void aServerThatDoesNotTakeItBackIsAskedOn() {
    watch.begin(RANK);
    try (CapturedLog log = new CapturedLog()) {
      bootstrap.failRegistrations(new IllegalStateException("status=503"));
      turn();
      turn();
      turn();
      assertThat(log.lines("WARN")).hasSize(2).last().asString().contains("status=503");
      bootstrap.failRegistrations(null);
      turn();
      assertThat(bootstrap.registered()).containsExactly(RANK);
      assertThat(log.lines("INFO")).singleElement().asString().contains("registered again");
    }
  }

  @Test
  void afterItsEndItDoesNothing() {
    watch.begin(RANK);
    assertThat(watch.end().toCompletableFuture()).isDone();
    assertThat(loop.pendingDeadlines()).isZero();
    pass(Duration.ofMinutes(1));
    assertThat(bootstrap.asked()).isZero();
  }

  @Test
  void anAnswerAfterItsEndRegistersNobody() {
    watch.begin(RANK);
    pass(Duration.ofSeconds(10));
    assertThat(watch.end().toCompletableFuture()).isDone();
    bootstrap.answer();
    loop.runDue();
    assertThat(bootstrap.registered()).isEmpty();
    assertThat(loop.pendingDeadlines()).isZero();
  }

  @Test
  void itsEndTellsOfARegistrationUnderWay() {
    CompletableFuture<RankRegistration> answer = new CompletableFuture<>();
    bootstrap.answerRegistrations(answer);
    watch.begin(RANK);
    turn();
    assertThat(watch.end().toCompletableFuture()).isNotDone();
    answer.complete(RANK);
    assertThat(watch.end().toCompletableFuture()).isDone();
    loop.runDue();
    assertThat(List.of(loop.pendingDeadlines())).containsExactly(0);
  }
}
