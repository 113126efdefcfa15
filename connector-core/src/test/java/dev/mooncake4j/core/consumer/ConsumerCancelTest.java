package dev.mooncake4j.core.consumer;

import static dev.mooncake4j.core.rig.RigDecoder.pullOf;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The server gives a request up, at any moment. */
class ConsumerCancelTest {
  private final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(0, 1));
  private final RigDecoder decoder = rig.decoder();
  private final RawPrefiller prefiller = rig.rawPrefiller();

  @BeforeEach
  void register() {
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(prefiller.address())));
  }

  @AfterEach
  void nothingIsLeft() {
    assertThat(decoder.loop().failedEvents()).isZero();
    assertThat(decoder.consumer().pulls()).isZero();
    assertThat(decoder.consumer().quarantinedBlocks()).isZero();
    assertThat(decoder.directory().questions()).isZero();
    rig.advanceSeconds(61);
    assertThat(decoder.loop().pendingDeadlines()).isZero();
    assertThat(decoder.consumer().connections()).isZero();
    rig.close();
  }

  private Question question() {
    rig.settle();
    return prefiller.question();
  }

  @Test
  void whileTheRanksAreFoundOutItEndsAtOnceAndNothingIsAsked() {
    rig.bootstrap().answerAlways(null);
    decoder.pull(pullOf("d1", "t1", 1), pullOf("d2", "t2", 2));
    rig.settle();
    decoder.cancel("d1");
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.requestId()).isEqualTo("d1");
    assertThat(failure.stage()).isEqualTo(FailureStage.ABORTED);
    assertThat(failure.blocks()).isEqualTo(BlockIds.of(1));
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
    List<Question> questions = prefiller.questions();
    // The prefiller is told all the same, so that it need not keep the blocks.
    assertThat(questions).extracting(Question::isPull).containsExactlyInAnyOrder(true, false);
    for (Question q : questions) {
      if (q.isPull()) {
        assertThat(q.pull().entries()).extracting(e -> e.requestId()).containsExactly("d2");
        q.finish("d2");
      } else {
        assertThat(q.release().transferIds()).containsExactly("t1");
        q.finish("t1");
      }
    }
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
  }

  @Test
  void whileItIsAskedThePrefillerIsToldAndItsAnswerIsWaitedFor() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    decoder.cancel("d");
    Question release = question();
    assertThat(release.release().transferIds()).containsExactly("t");
    release.finish("t");
    rig.settle();
    assertThat(decoder.ends()).as("the prefiller may be writing").isEmpty();
    assertThat(decoder.consumer().pulls()).isEqualTo(1);
    pull.failQuietly("was released", "d");
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.ABORTED);
    assertThat(failure.reason()).contains("given up by the server").contains("was released");
  }

  @Test
  void anAnswerThatAllIsDoneDoesNotMakeItReceived() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    decoder.cancel("d");
    question().finish("t");
    pull.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }

  @Test
  void atCompletionItChangesNothing() {
    decoder.pull("d", "t", 1);
    question().finish("d");
    rig.settle();
    decoder.cancel("d");
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void twiceIsOnce() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    decoder.cancel("d");
    decoder.cancel("d", "d");
    question().finish("t");
    pull.failQuietly("was released", "d");
    rig.settle();
    decoder.cancel("d");
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }

  @Test
  void ofWhatIsNotKnownChangesNothing() {
    decoder.cancel("never");
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    assertThat(rig.bootstrap().asked()).isZero();
  }

  @Test
  void inOneStepWithItsPullItIsAskedAndLetGo() {
    decoder.step(
        new StepPlan(
            List.of(),
            List.of(pullOf("d", "t", 1)),
            List.of("d"),
            List.of(),
            List.of(),
            List.of()));
    rig.settle();
    List<Question> questions = prefiller.questions();
    for (Question q : questions) {
      if (q.isPull()) {
        q.failQuietly("was released", "d");
      } else {
        q.finish("t");
      }
    }
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }

  @Test
  void byTransferIdFromARouterIsTheSame() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    decoder.loop().post(() -> decoder.consumer().release("t"));
    question().finish("t");
    pull.failQuietly("was released", "d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
    decoder.loop().post(() -> decoder.consumer().release("t"));
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
  }

  @Test
  void duringTheMarginItIsReportedAtTheMarginsEnd() {
    decoder.pull("d", "t", 1);
    question().failUnproven("transfer engine: -1", "d");
    rig.advanceSeconds(1);
    assertThat(decoder.consumer().quarantinedBlocks()).isEqualTo(1);
    decoder.cancel("d");
    question().finish();
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(1.1);
    assertThat(decoder.onlyFailure().stage()).isEqualTo(FailureStage.ABORTED);
  }

  @Test
  void aPrefillerThatKnowsNoReleasesIsWaitedFor() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    decoder.cancel("d");
    question().error("required field is missing: remote_hostname");
    rig.advanceSeconds(20);
    assertThat(decoder.ends()).isEmpty();
    pull.failUnproven("timed out", "d");
    rig.advanceSeconds(2.1);
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }

  @Test
  void aReleaseThatIsNotAnsweredIsGivenUp() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    decoder.cancel("d");
    question();
    rig.advanceSeconds(6);
    assertThat(rig.network().connections()).hasSize(1);
    pull.failQuietly("was released", "d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }

  @Test
  void whileAMovedPrefillerIsLookedForItIsNotAskedThere() {
    RawPrefiller moved = rig.rawPrefiller();
    prefiller.die();
    rig.bootstrap().answerAlways(null);
    decoder.pull("d", "t", 1);
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
    assertThat(rig.bootstrap().openQuestions()).hasSize(1);
    decoder.cancel("d");
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt(moved.address()));
    rig.settle();
    assertThat(moved.questions()).extracting(Question::isPull).containsExactly(false);
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
    rig.advanceSeconds(6);
  }

  @Test
  void theRequestIdMayBeUsedAgainAtOnce() {
    decoder.pull("d", "t1", 1);
    Question old = question();
    decoder.cancel("d");
    decoder.pull("d", "t2", 2);
    rig.settle();
    List<Question> questions = prefiller.questions();
    assertThat(questions).extracting(Question::isPull).containsExactlyInAnyOrder(true, false);
    Question next = questions.stream().filter(Question::isPull).findFirst().orElseThrow();
    assertThat(next.pull().entries()).extracting(e -> e.transferId()).containsExactly("t2");
    assertThat(decoder.consumer().pulls()).isEqualTo(2);
    next.finish("d");
    rig.settle();
    assertThat(decoder.ends()).as("of the second").containsExactly("d");
    old.failQuietly("was released", "d");
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.ABORTED);
    assertThat(failure.transferId()).as("of the first").isEqualTo("t1");
    rig.advanceSeconds(6);
  }
}
