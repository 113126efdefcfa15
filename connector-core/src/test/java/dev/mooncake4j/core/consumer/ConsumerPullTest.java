package dev.mooncake4j.core.consumer;

import static dev.mooncake4j.core.rig.RigDecoder.pullOf;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.FakeConnection;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.PullResponse;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a decoder asks, and what it makes of the answers. */
class ConsumerPullTest {
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
    rig.advanceSeconds(61);
    assertThat(decoder.loop().pendingDeadlines()).isZero();
    assertThat(decoder.consumer().connections()).isZero();
    rig.close();
  }

  private Question asked() {
    rig.settle();
    return prefiller.question();
  }

  @Test
  void aPullSaysWhatThePrefillerNeedsAndIsReceivedWhenItHasFinished() {
    decoder.pull("d", "t", 3, 4);
    Question question = asked();
    PullRequest pull = question.pull();
    assertThat(pull.entries()).containsExactly(new PullEntry("d", "t", BlockIds.of(3, 4)));
    assertThat(pull.remoteHostname()).isEqualTo(decoder.engine().host());
    assertThat(pull.remotePort()).isEqualTo(decoder.engine().port());
    assertThat(pull.remoteTpRank()).isZero();
    assertThat(pull.remoteTpSize()).isEqualTo(1);
    assertThat(pull.layout().regionCount()).isEqualTo(2);
    assertThat(pull.layout().layerName(1)).isEqualTo("model.layers.1");
    assertThat(pull.layoutId()).isEqualTo(101);
    assertThat(decoder.ends()).isEmpty();
    assertThat(decoder.consumer().pulls()).isEqualTo(1);
    question.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void itIsToldHowLongAFetchTookAndNothingOfReleasesAndFailures() {
    decoder.pull("d", "t", 3, 4);
    Question question = asked();
    decoder.pull("release", "t2");
    asked().finish("release");
    decoder.pull("failed", "t3", 5);
    Question failing = asked();
    failing.answer(PullResponse.finished(List.of(), List.of("failed"), "aborted", 101));
    rig.advanceSeconds(2);
    question.finish("d");
    rig.settle();
    assertThat(decoder.listener().received()).containsExactly("2 blocks in 2000000000");
    assertThat(decoder.listener().receiveFailures()).hasSize(1);
    assertThat(decoder.ends()).containsExactlyInAnyOrder("d", "failed=PREFILL");
  }

  @Test
  void theRequestsOfAStepGoInOnePullAndSettleOneByOne() {
    decoder.pull(pullOf("d1", "t1", 1), pullOf("d2", "t2", 2), pullOf("d3", "t3", 3));
    Question question = asked();
    assertThat(question.pull().entries())
        .extracting(PullEntry::requestId)
        .containsExactly("d1", "d2", "d3");
    question.answer(PullResponse.partial(List.of("d2"), List.of(), null, 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
    question.answer(PullResponse.partial(List.of(), List.of("d1"), "aborted", 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1=PREFILL");
    question.finish("d3");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d3");
  }

  @Test
  void smallPullsOfStepsThatWaitTogetherGoInOneQuestionAndSettleOneByOne() {
    decoder.pull("d1", "t1", 1);
    decoder.pull("d2", "t2", 2);
    decoder.pull("d3", "t3");
    Question question = asked();
    assertThat(question.pull().entries())
        .containsExactly(
            new PullEntry("d1", "t1", BlockIds.of(1)),
            new PullEntry("d2", "t2", BlockIds.of(2)),
            new PullEntry("d3", "t3", BlockIds.none()));
    question.answer(PullResponse.partial(List.of("d2"), List.of(), null, 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
    question.answer(PullResponse.finished(List.of("d3"), List.of("d1"), "aborted", 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1=PREFILL");
  }

  @Test
  void whatIsGivenUpBeforeTheQuestionIsNotAskedFor() {
    decoder.pull("d1", "t1", 1);
    decoder.pull("d2", "t2", 2);
    decoder.cancel("d1");
    rig.settle();
    List<Question> questions = prefiller.questions();
    assertThat(questions).hasSize(2);
    Question pull = questions.get(questions.get(0).isPull() ? 0 : 1);
    Question release = questions.get(questions.get(0).isPull() ? 1 : 0);
    assertThat(release.release().transferIds()).containsExactly("t1");
    assertThat(pull.pull().entries()).extracting(PullEntry::requestId).containsExactly("d2");
    release.finish();
    pull.finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactlyInAnyOrder("d2", "d1=ABORTED");
  }

  @Test
  void whatWasToBeAskedGoesOnWhenTheCachesAreGivenBackAndFailsWhenTheWorkerCloses() {
    decoder.pull("d1", "t1", 1);
    decoder.loop().post(decoder.consumer()::detach);
    decoder.pull("d2", "t2", 2);
    asked().finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactlyInAnyOrder("d1", "d2=REQUEST");

    decoder.loop().post(decoder::attach);
    decoder.pull("d3", "t3", 3);
    decoder.loop().post(() -> decoder.consumer().close("closing"));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d3=SHUTDOWN");
    assertThat(prefiller.questions()).isEmpty();
  }

  @Test
  void differentEnginesAreAskedApart() {
    decoder.pull(
        pullOf("d1", "t1", 1),
        new StepPlan.Pull("d2", "t2", "another-engine", CoreRig.BOOTSTRAP, BlockIds.of(2)));
    Question question = asked();
    assertThat(question.pull().entries()).extracting(PullEntry::requestId).containsExactly("d1");
    question.finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactlyInAnyOrder("d1", "d2=BOOTSTRAP");
  }

  @Test
  void aPullOfNoBlocksOnlyReleasesAndIsNeverReported() {
    decoder.pull("d", "t");
    Question question = asked();
    assertThat(question.pull().entries()).containsExactly(new PullEntry("d", "t", BlockIds.none()));
    assertThat(decoder.consumer().pulls()).isEqualTo(1);
    question.finish("d");
    rig.settle();
    assertThat(decoder.ends()).isEmpty();

    decoder.pull("d", "t");
    asked().error("no such thing");
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    assertThat(decoder.listener().receiveFailures()).isEmpty();
  }

  // Layouts.

  @Test
  void aLayoutIsSentUntilItWasEchoedAndThenNamed() {
    decoder.pull("d1", "t1", 1);
    Question first = asked();
    assertThat(first.pull().layout().isEmpty()).isFalse();
    // Not echoed: not kept.
    first.answer(PullResponse.finished(List.of("d1"), List.of(), null, 0));
    rig.settle();
    decoder.pull("d2", "t2", 1);
    Question second = asked();
    assertThat(second.pull().layout().isEmpty()).isFalse();
    second.finish("d2");
    rig.settle();
    decoder.pull("d3", "t3", 1);
    Question third = asked();
    assertThat(third.pull().layout().isEmpty()).isTrue();
    assertThat(third.pull().layoutId()).isEqualTo(101);
    third.finish("d3");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2", "d3");
  }

  @Test
  void aLayoutIsKeptByPeerAndUnderItsOwnNameAlone() {
    RawPrefiller other = rig.rawPrefiller();
    decoder.pull("d1", "t1", 1);
    asked().finish("d1");
    rig.settle();
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(other.address())));
    decoder.directory().forget(CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP);
    decoder.pull("d2", "t2", 1);
    rig.settle();
    Question elsewhere = other.question();
    assertThat(elsewhere.pull().layout().isEmpty()).as("another rank").isFalse();
    elsewhere.finish("d2");
    rig.settle();
    decoder.attach();
    decoder.pull("d3", "t3", 1);
    rig.settle();
    Question renamed = other.question();
    assertThat(renamed.pull().layout().isEmpty()).as("registered anew").isFalse();
    assertThat(renamed.pull().layoutId()).isEqualTo(103);
    renamed.finish("d3");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2", "d3");
  }

  @Test
  void aMissedLayoutIsSentAgainOnTheSameConnection() {
    decoder.pull("d1", "t1", 1);
    asked().finish("d1");
    rig.settle();
    decoder.pull(pullOf("d2", "t2", 2), pullOf("d3", "t3", 3));
    asked().answer(PullResponse.layoutMiss("never heard of it"));
    Question again = asked();
    assertThat(again.pull().layout().regionCount()).isEqualTo(2);
    assertThat(again.pull().entries()).extracting(PullEntry::requestId).containsExactly("d2", "d3");
    assertThat(rig.network().connections()).hasSize(1);
    again.finish("d2", "d3");
    rig.settle();
    decoder.pull("d4", "t4", 4);
    Question named = asked();
    assertThat(named.pull().layout().isEmpty()).isTrue();
    named.finish("d4");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2", "d3", "d4");
  }

  @Test
  void aSecondMissFails() {
    decoder.pull("d1", "t1", 1);
    asked().answer(PullResponse.layoutMiss("never heard of it"));
    rig.settle();
    assertThat(prefiller.questions()).as("it was sent the first time already").isEmpty();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.PLAN);
    assertThat(failure.reason()).contains("layout").contains("never heard of it");
    assertThat(failure.peer()).isEqualTo(prefiller.address());
  }

  @Test
  void afterTwoMissesTheNextPullBringsTheLayout() {
    decoder.pull("d1", "t1", 1);
    asked().finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1");
    decoder.pull("d2", "t2", 2);
    asked().answer(PullResponse.layoutMiss("never heard of it"));
    asked().answer(PullResponse.layoutMiss("and cannot keep it"));
    rig.settle();
    assertThat(decoder.onlyFailure().reason()).contains("and cannot keep it");

    decoder.pull("d3", "t3", 3);
    Question next = asked();
    assertThat(next.pull().layout().regionCount()).isEqualTo(2);
    next.finish("d3");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d3");
  }

  // Answers.

  @Test
  void whatAFinishLeavesOutHasFailed() {
    decoder.pull(pullOf("d1", "t1", 1), pullOf("d2", "t2", 2, 5));
    asked().finish("d1", "somebody else's");
    rig.settle();
    assertThat(decoder.consumer().pulls()).isZero();
    var result = decoder.results();
    assertThat(result.received()).containsExactly("d1");
    Failure failure = result.failed().getFirst();
    assertThat(failure.requestId()).isEqualTo("d2");
    assertThat(failure.transferId()).isEqualTo("t2");
    assertThat(failure.stage()).isEqualTo(FailureStage.RESPONSE);
    assertThat(failure.blocks()).isEqualTo(BlockIds.of(2, 5));
  }

  @Test
  void anErrorFailsAllAtOnce() {
    decoder.pull(pullOf("d1", "t1", 1), pullOf("d2", "t2", 2));
    asked().error("block lengths differ");
    rig.settle();
    assertThat(decoder.results().failed())
        .hasSize(2)
        .allSatisfy(
            f -> {
              assertThat(f.stage()).isEqualTo(FailureStage.PLAN);
              assertThat(f.reason()).isEqualTo("block lengths differ");
            });
    assertThat(decoder.listener().receiveFailures()).hasSize(2);
  }

  @Test
  void aRequestNamedAsDoneAndFailedHasFailed() {
    decoder.pull("d", "t", 1);
    asked().answer(PullResponse.finished(List.of("d"), List.of("d"), "torn", 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=PREFILL");
  }

  @Test
  void theStageSaysWhereItFailed() {
    String[] messages = {
      "transfer engine: status=-1", "asks for blocks=3, held=2", "prefill was aborted"
    };
    FailureStage[] stages = {FailureStage.TRANSFER, FailureStage.PLAN, FailureStage.PREFILL};
    for (int i = 0; i < messages.length; i++) {
      decoder.pull("d", "t", 1);
      asked().failQuietly(messages[i], "d");
      rig.settle();
      Failure failure = decoder.onlyFailure();
      assertThat(failure.stage()).isEqualTo(stages[i]);
      assertThat(failure.reason()).isEqualTo(messages[i]);
    }
  }

  @Test
  void aFailureWithoutProofOfQuietHoldsItsBlocksForTheMargin() {
    decoder.pull(pullOf("d1", "t1", 1, 2), pullOf("d2", "t2", 3));
    asked()
        .answer(
            new PullResponse(
                PullResponse.Status.FINISH,
                List.of("d2"),
                List.of("d1"),
                "Mooncake transfer engine returned -1",
                101,
                false));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
    assertThat(decoder.consumer().quarantinedBlocks()).isEqualTo(2);
    assertThat(decoder.consumer().pulls()).isEqualTo(1);
    rig.advanceSeconds(1.9);
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(decoder.ends()).containsExactly("d1=TRANSFER");
    assertThat(decoder.consumer().quarantinedBlocks()).isZero();
  }

  @Test
  void aMalformedAnswerFailsWithResponseAndItsConnectionIsNotUsedAgain() {
    decoder.pull("d", "t", 1);
    Question question = asked();
    FakeConnection connection = rig.network().onlyConnection();
    question.answerBytes(new byte[] {1, 2, 3});
    rig.settle();
    assertThat(connection.isOpen()).isFalse();
    // More of the same may be on its way: the blocks are let go and their quiet is asked for.
    asked().finish();
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.RESPONSE);
    assertThat(failure.reason()).contains("malformed");
  }

  @Test
  void aConnectionIsUsedAgainOnceItsLastAnswerHasCome() {
    decoder.pull("d1", "t1", 1);
    Question first = asked();
    first.answer(PullResponse.partial(List.of("d1"), List.of(), null, 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1");
    // The first pull's FINISH is still to come: it must not be taken for the second's.
    decoder.pull("d2", "t2", 2);
    Question second = asked();
    assertThat(rig.network().connections()).hasSize(2);
    first.answer(PullResponse.finished(List.of(), List.of(), null, 101));
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    second.finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
    decoder.pull("d3", "t3", 3);
    asked().finish("d3");
    rig.settle();
    assertThat(rig.network().connections()).hasSize(2);
    assertThat(decoder.ends()).containsExactly("d3");
  }

  @Test
  void aConnectionThatIsUsedAgainIsFreeNoMore() {
    decoder.pull("d1", "t1", 1);
    asked().finish("d1");
    rig.advanceSeconds(40);
    decoder.pull("d2", "t2", 2);
    Question second = asked();
    rig.advanceSeconds(40);
    assertThat(rig.network().onlyConnection().isOpen()).isTrue();
    second.finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2");
  }

  @Test
  void freeConnectionsAreBoundedAndClosedAfterAMinute() {
    for (int i = 0; i < 140; i++) {
      decoder.pull("d" + i, "t" + i, i % 20);
      rig.settle();
    }
    List<Question> questions = prefiller.questions();
    assertThat(questions).hasSize(140);
    for (int i = 0; i < 140; i++) {
      questions.get(i).finish("d" + i);
    }
    rig.settle();
    assertThat(decoder.ends()).hasSize(140);
    assertThat(decoder.consumer().connections()).isEqualTo(128);
    assertThat(rig.network().connections()).hasSize(128);
    rig.advanceSeconds(59);
    assertThat(decoder.consumer().connections()).isEqualTo(128);
    rig.advanceSeconds(2);
    assertThat(decoder.consumer().connections()).isZero();
    assertThat(rig.network().connections()).isEmpty();
  }

  @Test
  void anAnswerToNoQuestionIsDropped() {
    decoder.pull("d1", "t1", 1);
    Question question = asked();
    question.finish("d1");
    rig.settle();
    question.finish("d1");
    rig.settle();
    assertThat(decoder.consumer().lateReplies()).isEqualTo(1);
    assertThat(decoder.ends()).containsExactly("d1");
  }

  // Requests that are not taken.

  @Test
  void blockIdsAreCheckedBeforeAnythingIsSent() {
    decoder.pull(pullOf("d1", "t1", -1), pullOf("d2", "t2", 64), pullOf("d3", "t3", 63));
    asked().finish("d3");
    rig.settle();
    var result = decoder.results();
    assertThat(result.received()).containsExactly("d3");
    assertThat(result.failed())
        .extracting(Failure::stage)
        .containsExactly(FailureStage.REQUEST, FailureStage.REQUEST);
    assertThat(result.failed().get(0).reason()).contains("block_id=-1");
    assertThat(result.failed().get(1).reason()).contains("block_id=64").contains("63");
  }

  @Test
  void aBlockThatIsGivenTwiceIsRefused() {
    decoder.pull("d", "t", 5, 6, 5);
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.REQUEST);
    assertThat(failure.reason()).contains("block_id=5").contains("twice");
  }

  @Test
  void blocksOfAnotherNumberOfGroupsAreRefused() {
    decoder.pull(
        new StepPlan.Pull(
            "d",
            "t",
            CoreRig.ENGINE_ID,
            CoreRig.BOOTSTRAP,
            BlockIds.ofGroups(new int[] {1}, new int[] {2})));
    rig.settle();
    assertThat(decoder.onlyFailure().reason()).contains("groups=2").contains("groups=1");
  }

  @Test
  void aTransferIdInUseIsRefusedAndTheFirstGoesOn() {
    decoder.pull("d1", "t", 1);
    Question question = asked();
    decoder.pull("d2", "t", 2);
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.requestId()).isEqualTo("d2");
    assertThat(failure.stage()).isEqualTo(FailureStage.REQUEST);
    assertThat(failure.reason()).contains("transfer_id=t").contains("request_id=d1");
    assertThat(failure.blocks()).isEqualTo(BlockIds.of(2));
    question.finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1");
    decoder.pull("d2", "t", 2);
    asked().finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
  }

  @Test
  void aReleaseOfATransferInUseIsLeftOutInSilence() {
    decoder.pull("d1", "t", 1);
    Question question = asked();
    decoder.pull("d2", "t");
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
    question.finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1");
  }

  @Test
  void thePullOfOneRequestToldTwiceIsOnePull() {
    decoder.pull("d", "t", 1);
    decoder.pull("d", "t", 1);
    asked().finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void aRequestIdMayBeUsedAgainAtOnceAndAgain() {
    for (int i = 0; i < 3; i++) {
      decoder.pull("d", "t" + i, i);
      asked().finish("d");
      rig.settle();
      assertThat(decoder.ends()).containsExactly("d");
    }
  }

  @Test
  void aRequestIdUsedAgainWhileItsReleaseIsUnderWayIsAskedForApart() {
    decoder.pull(pullOf("d", "t1"), pullOf("d", "t2", 2));
    rig.settle();
    List<Question> questions = prefiller.questions();
    assertThat(questions).hasSize(2);
    questions.forEach(q -> q.finish("d"));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void withoutCachesNothingIsAsked() {
    decoder.consumer().detach();
    decoder.pull(pullOf("d1", "t1", 1), pullOf("d2", "t2"));
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.REQUEST);
    assertThat(failure.reason()).contains("no kv caches");
  }
}
