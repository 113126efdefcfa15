package dev.mooncake4j.core.consumer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One decoder rank that pulls from two prefiller ranks. */
class ConsumerRanksTest {
  private final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(0, 1));
  private final RigDecoder decoder = rig.decoder();
  private final RawPrefiller first = rig.rawPrefiller();
  private final RawPrefiller second = rig.rawPrefiller();

  @BeforeEach
  void register() {
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(first.address(), second.address())));
  }

  @AfterEach
  void nothingIsLeft() {
    assertThat(decoder.loop().failedEvents()).isZero();
    assertThat(decoder.consumer().pulls()).isZero();
    assertThat(decoder.consumer().quarantinedBlocks()).isZero();
    rig.advanceSeconds(61);
    assertThat(decoder.loop().pendingDeadlines()).isZero();
    assertThat(decoder.consumer().connections()).isZero();
    rig.close();
  }

  @Test
  void aRequestIsReceivedWhenEveryRankHasAnswered() {
    decoder.pull("d", "t", 1);
    rig.settle();
    second.question().finish("d");
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    first.question().finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void itHasFailedIfOneRankHasAndSettlesWhenAllHaveAnswered() {
    decoder.pull("d", "t", 1);
    rig.settle();
    first.question().failQuietly("the first reason", "d");
    rig.settle();
    assertThat(decoder.ends()).as("the other may still write").isEmpty();
    second.question().failQuietly("another reason", "d");
    rig.settle();
    assertThat(decoder.onlyFailure())
        .satisfies(
            f -> {
              assertThat(f.reason()).isEqualTo("the first reason");
              assertThat(f.peer()).isEqualTo(first.address());
            });

    decoder.pull("d", "t", 1);
    rig.settle();
    first.question().finish("d");
    second.question().failQuietly("the second rank's", "d");
    rig.settle();
    assertThat(decoder.onlyFailure().reason()).isEqualTo("the second rank's");
  }

  @Test
  void aFailureWithoutProofIsHeldFromItsOwnMoment() {
    decoder.pull("d", "t", 1);
    rig.settle();
    first.question().failUnproven("transfer engine: -1", "d");
    rig.advanceSeconds(1.5);
    Question other = second.question();
    other.finish("d");
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.4);
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(decoder.ends()).containsExactly("d=TRANSFER");
  }

  @Test
  void anAnswerAfterTheMarginIsReportedAtOnce() {
    decoder.pull("d", "t", 1);
    rig.settle();
    first.question().failUnproven("transfer engine: -1", "d");
    rig.advanceSeconds(5);
    second.question().finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=TRANSFER");
  }

  @Test
  void theOtherRanksAreToldWhenOneBreaksSoThatTheRequestEndsSoon() {
    decoder.pull("d", "t", 1);
    rig.settle();
    Question pull = second.question();
    first.die();
    rig.settle();
    Question release = second.question();
    assertThat(release.release().transferIds()).containsExactly("t");
    release.finish("t");
    pull.failQuietly("was released", "d");
    rig.advanceSeconds(2.1);
    assertThat(decoder.onlyFailure().peer()).isEqualTo(first.address());
  }

  @Test
  void oneRankThatCannotBeReachedAtAllFailsItAndTheOthersAreTold() {
    first.die();
    decoder.pull("d", "t", 1);
    rig.settle();
    List<Question> asked = second.questions();
    assertThat(asked).extracting(Question::isPull).containsExactly(true, false);
    asked.get(1).finish("t");
    asked.get(0).failQuietly("was released", "d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=SIDE_CHANNEL");
  }

  @Test
  void ranksThatCannotBeAskedDoNotKeepTheRequestOpen() {
    decoder.channel().failConnects(new IllegalStateException("no more sockets"));
    decoder.pull("d", "t", 1);
    rig.settle();
    assertThat(decoder.onlyFailure().reason()).contains("no more sockets");
    decoder.channel().failConnects(null);
  }

  @Test
  void sizesThatDoNotDivideFailBeforeAnythingIsAsked() {
    rig.bootstrap()
        .answerAlways(
            List.of(
                CoreRig.engineAt(
                    first.address(), second.address(), "tcp://h:1", "tcp://h:2", "tcp://h:3")));
    try (CoreRig two = new CoreRig(RigOptions.defaults().withRanks(0, 2))) {
      two.bootstrap()
          .answerAlways(List.of(CoreRig.engineAt("tcp://h:1", "tcp://h:2", "tcp://h:3")));
      two.decoder(1).pull("d", "t", 1);
      two.settle();
      assertThat(two.decoder(1).ends()).containsExactly("d=PLAN");
      assertThat(two.network().connections()).isEmpty();
    }
  }
}
