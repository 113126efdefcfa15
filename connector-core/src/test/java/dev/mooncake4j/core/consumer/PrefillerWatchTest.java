package dev.mooncake4j.core.consumer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.FakeBootstrap.LookAnswer;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A prefiller hangs behind a connection that stays: it is noticed in seconds. */
class PrefillerWatchTest {
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
    rig.advanceSeconds(61);
    int looks = rig.bootstrap().looks();
    rig.advanceSeconds(30);
    assertThat(rig.bootstrap().looks()).as("nobody waits, nobody looks").isEqualTo(looks);
    assertThat(decoder.loop().pendingDeadlines()).isZero();
    assertThat(decoder.consumer().connections()).isZero();
    rig.close();
  }

  private Question question() {
    rig.settle();
    return prefiller.question();
  }

  /** The prefiller answers whatever it is asked beside the pull. */
  private void answerLooks() {
    prefiller.questions().forEach(q -> q.error("required field is missing"));
    rig.settle();
  }

  @Test
  void oneThatIsStillRegisteredIsWaitedForAndNotAskedItself() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    rig.advanceSeconds(80);
    assertThat(rig.bootstrap().looks()).isBetween(20, 27);
    assertThat(prefiller.questions()).isEmpty();
    pull.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void aPullThatIsAnsweredSoonCostsNoLook() {
    decoder.pull("d", "t", 1);
    question().finish("d");
    rig.advanceSeconds(2.9);
    assertThat(rig.bootstrap().looks()).isZero();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void oneThatHangsIsNoticedWithinFifteenSeconds() {
    decoder.pull("d", "t", 1);
    question();
    rig.bootstrap().answerLooks(LookAnswer.FAILED);
    rig.advanceSeconds(14);
    // Its release is not answered either, so the blocks are kept.
    rig.advanceSeconds(5);
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.SIDE_CHANNEL);
    assertThat(failure.reason()).contains("hangs").contains(prefiller.address());
    assertThat(failure.quiet()).isFalse();
    assertThat(decoder.consumer().quarantinedBlocks()).isEqualTo(1);
    rig.advanceSeconds(90);
    assertThat(decoder.results().quieted()).hasSize(1);
  }

  @Test
  void oneLookThatFindsNobodyIsNotEnough() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    rig.bootstrap().answerLooks(LookAnswer.FAILED);
    rig.advanceSeconds(5.1);
    rig.bootstrap().answerLooks(LookAnswer.AS_KNOWN);
    rig.advanceSeconds(4);
    // And the next one that fails is the first again.
    rig.bootstrap().answerLooks(LookAnswer.FAILED);
    rig.advanceSeconds(5.1);
    rig.bootstrap().answerLooks(LookAnswer.AS_KNOWN);
    rig.advanceSeconds(10);
    assertThat(decoder.ends()).isEmpty();
    pull.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void theEndOfItsBootstrapServerIsNotItsOwn() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    for (LookAnswer answer : List.of(LookAnswer.FAILED, LookAnswer.NONE, LookAnswer.NEVER)) {
      rig.bootstrap().answerLooks(answer);
      for (int i = 0; i < 60; i++) {
        rig.advanceSeconds(0.25);
        answerLooks();
      }
    }
    assertThat(decoder.ends()).isEmpty();
    assertThat(decoder.consumer().quarantinedBlocks()).isZero();
    pull.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void allPullsThatWaitForTheRankFailAndOthersDoNot() {
    RawPrefiller other = rig.rawPrefiller();
    decoder.pull("d1", "t1", 1);
    Question first = question();
    assertThat(first.isPull()).isTrue();
    decoder.directory().forget(CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP);
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(other.address())));
    decoder.pull("d2", "t2", 2);
    rig.settle();
    Question second = other.question();
    rig.bootstrap().answerLooks(LookAnswer.FAILED);
    for (int i = 0; i < 80; i++) {
      rig.advanceSeconds(0.25);
      other.questions().forEach(q -> q.finish());
      rig.settle();
    }
    assertThat(decoder.onlyFailure().requestId()).isEqualTo("d1");
    second.finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
    rig.advanceSeconds(90);
    decoder.results();
  }

  @Test
  void onesThatCannotBeAskedAreSilent() {
    decoder.pull("d", "t", 1);
    question();
    rig.bootstrap().answerLooks(LookAnswer.FAILED);
    decoder.channel().failConnects(new IllegalStateException("no more sockets"));
    rig.advanceSeconds(20);
    assertThat(decoder.onlyFailure().reason()).contains("hangs");
    decoder.channel().failConnects(null);
    rig.advanceSeconds(1);
    question().finish("t");
    rig.settle();
    assertThat(decoder.results().quieted()).hasSize(1);
  }

  @Test
  void closingEndsTheWatch() {
    decoder.pull("d", "t", 1);
    question();
    rig.bootstrap().answerLooks(LookAnswer.FAILED);
    rig.advanceSeconds(3.5);
    decoder.consumer().close("the connector is closed");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=SHUTDOWN");
  }
}
