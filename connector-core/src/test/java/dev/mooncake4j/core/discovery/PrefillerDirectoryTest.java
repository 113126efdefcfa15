package dev.mooncake4j.core.discovery;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.rig.FakeBootstrap;
import dev.mooncake4j.testkit.ManualClock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PrefillerDirectoryTest {
  private static final String SERVER = "http://p:8998";

  private final ManualClock clock = new ManualClock();
  private final EventLoop loop = new EventLoop(clock);
  private final FakeBootstrap bootstrap = new FakeBootstrap();
  private final PrefillerDirectory directory = new PrefillerDirectory(loop, bootstrap);
  private final List<String> answers = new ArrayList<>();

  @AfterEach
  void nothingIsLeft() {
    assertThat(directory.questions()).isZero();
    assertThat(loop.pendingDeadlines()).isZero();
  }

  private void find(String name, String engineId, String server) {
    directory.find(
        engineId,
        server,
        PrefillerDirectory.answer(
            found -> answers.add(name + "=" + found.address(0, 0)),
            reason -> answers.add(name + ": " + reason)));
  }

  private static EngineAddresses engine(String id, String address) {
    return new EngineAddresses(0, id, Map.of(0, Map.of(0, address)));
  }

  @Test
  void questionsToOneServerAreOne() {
    find("a", "e1", SERVER);
    find("b", "e2", SERVER);
    find("c", "e1", SERVER);
    find("d", "e1", "http://other:1");
    assertThat(bootstrap.openQuestions()).containsExactly(SERVER, "http://other:1");
    assertThat(directory.questions()).isEqualTo(2);
    bootstrap.answer(engine("e1", "tcp://h:1"), engine("e2", "tcp://h:2"));
    assertThat(answers).as("told on the loop alone").isEmpty();
    loop.runDue();
    assertThat(answers).containsExactly("a=tcp://h:1", "b=tcp://h:2", "c=tcp://h:1", "d=tcp://h:1");
  }

  @Test
  void whatWasFoundIsRememberedUntilItIsForgotten() {
    find("a", "e", SERVER);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    find("b", "e", SERVER);
    assertThat(answers).as("at once").containsExactly("a=tcp://h:1", "b=tcp://h:1");
    assertThat(bootstrap.asked()).isEqualTo(1);
    directory.forget("e", SERVER);
    find("c", "e", SERVER);
    bootstrap.answer(engine("e", "tcp://h:2"));
    loop.runDue();
    assertThat(answers).endsWith("c=tcp://h:2");
  }

  @Test
  void oneServersAnswerIsNotTakenForAnothers() {
    find("a", "e", "http://liar:1");
    bootstrap.answer(engine("e", "tcp://liar:1"));
    loop.runDue();
    find("b", "e", SERVER);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    directory.forget("e", "http://liar:1");
    find("c", "e", SERVER);
    assertThat(answers).containsExactly("a=tcp://liar:1", "b=tcp://h:1", "c=tcp://h:1");
    assertThat(bootstrap.asked()).isEqualTo(2);
  }

  @Test
  void anIncompleteAnswerIsAFailureAndIsNotRemembered() {
    find("a", "e", SERVER);
    bootstrap.answer(
        new EngineAddresses(0, "e", Map.of(1, Map.of(0, "tcp://h:1"))),
        engine("other", "tcp://h:9"));
    loop.runDue();
    assertThat(answers.getFirst()).startsWith("a: ").contains("not all its ranks").contains(SERVER);
    find("b", "e", SERVER);
    assertThat(bootstrap.asked()).isEqualTo(2);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    assertThat(answers).endsWith("b=tcp://h:1");
  }

  @Test
  void anEngineThatIsNotThereIsNamedWithThoseThatAre() {
    find("a", "e", SERVER);
    bootstrap.answer(engine("other", "tcp://h:9"));
    loop.runDue();
    assertThat(answers.getFirst()).contains("engine_id=e").contains("[other]").contains(SERVER);
    find("b", "e", SERVER);
    assertThat(bootstrap.asked()).as("an empty answer is not remembered").isEqualTo(2);
    bootstrap.answer();
    loop.runDue();
    // Nor are engines that nobody asked for.
    find("c", "other", SERVER);
    assertThat(bootstrap.asked()).isEqualTo(3);
    bootstrap.answer();
    loop.runDue();
  }

  @Test
  void aFailureIsToldToAllWithItsCause() {
    find("a", "e1", SERVER);
    find("b", "e2", SERVER);
    bootstrap.fail(new CompletionException(new IllegalStateException("attempts=3")));
    loop.runDue();
    assertThat(answers).hasSize(2).allSatisfy(a -> assertThat(a).contains("attempts=3", SERVER));
  }

  @Test
  void aClientThatThrowsIsAFailureAndTheServerIsAskedAgain() {
    bootstrap.failQueries(new IllegalStateException("closed"));
    find("a", "e", SERVER);
    loop.runDue();
    assertThat(answers.getFirst()).startsWith("a: ").contains("closed");
    bootstrap.failQueries(null);
    find("b", "e", SERVER);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    assertThat(answers).endsWith("b=tcp://h:1");
  }

  @Test
  void aServerThatSaysNothingIsGivenUpAndItsLateAnswerChangesNothing() {
    find("a", "e", SERVER);
    clock.advance(Duration.ofSeconds(601));
    loop.runDue();
    assertThat(answers).hasSize(1);
    assertThat(answers.getFirst()).startsWith("a: ");
    find("b", "e", SERVER);
    assertThat(bootstrap.asked()).isEqualTo(2);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    assertThat(answers).hasSize(2).endsWith("b=tcp://h:1");
  }

  @Test
  void anAnswerThatThrowsHarmsNoOther() {
    directory.find(
        "e",
        SERVER,
        PrefillerDirectory.answer(
            found -> {
              throw new IllegalStateException("made to fail");
            },
            reason -> {}));
    find("b", "e", SERVER);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    assertThat(answers).containsExactly("b=tcp://h:1");
    assertThat(loop.failedEvents()).isEqualTo(1);
  }

  @Test
  void anAnswerMayAskAgain() {
    directory.find(
        "e", SERVER, PrefillerDirectory.answer(found -> {}, reason -> find("again", "e", SERVER)));
    bootstrap.answer();
    loop.runDue();
    assertThat(bootstrap.openQuestions()).containsExactly(SERVER);
    bootstrap.answer(engine("e", "tcp://h:1"));
    loop.runDue();
    assertThat(answers).containsExactly("again=tcp://h:1");
  }

  @Test
  void theEnginesRememberedAreBounded() {
    for (int i = 0; i <= 4096; i++) {
      find("a", "e" + i, SERVER);
      bootstrap.answer(engine("e" + i, "tcp://h:1"));
      loop.runDue();
    }
    int asked = bootstrap.asked();
    find("b", "e1", SERVER);
    assertThat(bootstrap.asked()).isEqualTo(asked);
    find("c", "e0", SERVER);
    assertThat(bootstrap.asked()).isEqualTo(asked + 1);
    bootstrap.answer();
    loop.runDue();
  }
}
