package dev.mooncake4j.core.consumer;

import static dev.mooncake4j.core.rig.RigDecoder.pullOf;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.FakeConnection;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.wire.PullResponse;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The way to the prefiller fails: each pull ends once, in bounded time, with quiet blocks. */
class ConsumerFaultTest {
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
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(61);
    assertThat(decoder.loop().pendingDeadlines()).isZero();
    assertThat(decoder.consumer().connections()).isZero();
    rig.close();
  }

  private Question question() {
    rig.settle();
    return prefiller.question();
  }

  private Failure failure(FailureStage stage) {
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(stage);
    assertThat(failure.reason()).isNotBlank();
    return failure;
  }

  private Failure onlyQuieted() {
    List<Failure> quieted = decoder.results().quieted();
    assertThat(quieted).hasSize(1);
    return quieted.getFirst();
  }

  // Who to ask.

  @Test
  void aBootstrapServerThatFailsFailsAllThatWaitedForIt() {
    rig.bootstrap().answerAlways(null);
    decoder.pull("d1", "t1", 1);
    decoder.pull("d2", "t2", 2);
    rig.settle();
    assertThat(rig.bootstrap().openQuestions()).containsExactly(CoreRig.BOOTSTRAP);
    rig.bootstrap().fail(new IllegalStateException("connection refused, attempts=3"));
    rig.settle();
    assertThat(decoder.results().failed())
        .hasSize(2)
        .allSatisfy(
            f -> {
              assertThat(f.stage()).isEqualTo(FailureStage.BOOTSTRAP);
              assertThat(f.reason()).contains(CoreRig.BOOTSTRAP).contains("attempts=3");
            });
  }

  @Test
  void aBootstrapClientThatThrowsFailsThePullAndTheNextIsAskedAnew() {
    rig.bootstrap().failQueries(new IllegalStateException("the client is closed"));
    decoder.pull("d1", "t1", 1);
    rig.settle();
    assertThat(failure(FailureStage.BOOTSTRAP).reason()).contains("the client is closed");
    rig.bootstrap().failQueries(null);
    decoder.pull("d2", "t2", 1);
    question().finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d2");
  }

  @Test
  void aBootstrapServerThatNeverAnswersIsWaitedForAsLongAsItCouldTakeToAnswer() {
    rig.bootstrap().answerAlways(null);
    decoder.pull("d", "t", 1);
    rig.advanceSeconds(10);
    decoder.pull("d2", "t2", 2);
    rig.advanceSeconds(4.9);
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(failure(FailureStage.BOOTSTRAP).reason())
        .contains(CoreRig.BOOTSTRAP)
        .contains("seconds=15");
    // The second joined the same question, and has its own time.
    rig.advanceSeconds(9.8);
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(decoder.onlyFailure().requestId()).isEqualTo("d2");
    // An answer that comes all the same starts nothing.
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
    assertThat(prefiller.questions()).isEmpty();
  }

  @Test
  void anEngineThatIsNotRegisteredOrNotWhollyIsToldApart() {
    rig.bootstrap().answerAlways(List.of());
    decoder.pull("d", "t", 1);
    rig.settle();
    assertThat(failure(FailureStage.BOOTSTRAP).reason()).contains("not registered");
    rig.bootstrap()
        .answerAlways(
            List.of(
                new dev.mooncake4j.core.discovery.EngineAddresses(
                    0,
                    CoreRig.ENGINE_ID,
                    java.util.Map.of(1, java.util.Map.of(0, prefiller.address())))));
    decoder.pull("d", "t", 1);
    rig.settle();
    assertThat(failure(FailureStage.BOOTSTRAP).reason()).contains("not all its ranks");
  }

  @Test
  void anAddressThatMayNotBeConnectedToIsRefused() {
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt("tcp://169.254.169.254:80")));
    decoder.pull("d", "t", 1);
    rig.settle();
    assertThat(failure(FailureStage.BOOTSTRAP).reason())
        .contains("169.254.169.254")
        .contains("peer_allowed_hosts");
    decoder.pull("d", "t");
    rig.settle();
    assertThat(rig.network().connections()).isEmpty();
  }

  @Test
  void oneThatHasMovedWhereItMayNotBeIsNotFollowed() {
    prefiller.die();
    rig.bootstrap().answerAlways(null);
    decoder.pull("d", "t", 1);
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt("tcp://[fe80::1]:80"));
    rig.settle();
    failure(FailureStage.SIDE_CHANNEL);
    assertThat(rig.network().connections()).isEmpty();
  }

  @Test
  void anAddressThatCannotBeAskedIsRefused() {
    for (String bad : new String[] {"ipc:///tmp/x", "tcp://0.0.0.0:5", "tcp://h", "tcp://h:0"}) {
      rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(bad)));
      decoder.directory().forget(CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP);
      decoder.pull("d", "t", 1);
      rig.settle();
      assertThat(failure(FailureStage.BOOTSTRAP).reason()).contains(bad);
    }
  }

  // Not reached.

  @Test
  void aPrefillerThatCannotBeReachedIsAskedForOnceMoreAndFailsWithoutDelay() {
    decoder.pull("d1", "t1", 1);
    question().finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1");
    prefiller.die();
    rig.settle();
    int askedBefore = rig.bootstrap().asked();
    decoder.pull("d2", "t2", 2, 3);
    rig.settle();
    Failure failure = failure(FailureStage.SIDE_CHANNEL);
    assertThat(failure.blocks()).isEqualTo(BlockIds.of(2, 3));
    assertThat(failure.peer()).isEqualTo(prefiller.address());
    assertThat(rig.bootstrap().asked()).isEqualTo(askedBefore + 1);
  }

  @Test
  void oneThatHasMovedIsFollowed() {
    RawPrefiller moved = rig.rawPrefiller();
    decoder.pull("d1", "t1", 1);
    question().finish("d1");
    rig.settle();
    prefiller.die();
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(moved.address())));
    decoder.pull(pullOf("d2", "t2", 2), pullOf("d3", "t3", 3));
    rig.settle();
    Question there = moved.question();
    assertThat(there.pull().layout().isEmpty()).as("it does not know the layout").isFalse();
    there.finish("d2", "d3");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2", "d3");
    // And remembered.
    int asked = rig.bootstrap().asked();
    decoder.pull("d4", "t4", 4);
    rig.settle();
    moved.question().finish("d4");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d4");
    assertThat(rig.bootstrap().asked()).isEqualTo(asked);
  }

  @Test
  void oneThatMovesAgainIsNotFollowedForEver() {
    RawPrefiller second = rig.rawPrefiller();
    RawPrefiller third = rig.rawPrefiller();
    prefiller.die();
    second.die();
    rig.bootstrap().answerAlways(null);
    decoder.pull("d", "t", 1);
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt(second.address()));
    rig.settle();
    failure(FailureStage.SIDE_CHANNEL);
    assertThat(rig.bootstrap().openQuestions()).isEmpty();
    assertThat(third.questions()).isEmpty();
  }

  @Test
  void aServerThatDoesNotAnswerTheSecondTimeDoesNotKeepThePull() {
    prefiller.die();
    rig.bootstrap().answerAlways(null);
    decoder.pull("d", "t", 1);
    rig.settle();
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.advanceSeconds(15.1);
    failure(FailureStage.SIDE_CHANNEL);
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
  }

  @Test
  void anEngineIdThatIsGoneFailsFastAndTheNewOneIsFound() {
    decoder.pull("d1", "t1", 1);
    question().finish("d1");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1");
    prefiller.die();
    rig.bootstrap().answerAlways(List.of());
    rig.settle();
    decoder.pull("d2", "t2", 1);
    rig.settle();
    assertThat(failure(FailureStage.SIDE_CHANNEL).reason()).contains("not registered");
  }

  @Test
  void aQuestionThatCannotBeQueuedOrSentFails() {
    decoder.channel().failConnects(new IllegalStateException("no more sockets"));
    decoder.pull("d", "t", 1);
    rig.settle();
    assertThat(failure(FailureStage.SIDE_CHANNEL).reason()).contains("no more sockets");
    decoder.channel().failConnects(null);
    decoder.pull("d", "t", 1);
    question().finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void aFreeConnectionThatTakesNothingIsReplaced() {
    decoder.pull("d1", "t1", 1);
    question().finish("d1");
    rig.settle();
    FakeConnection stale = rig.network().onlyConnection();
    stale.setFull(true);
    decoder.pull("d2", "t2", 1);
    question().finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2");
    assertThat(stale.isOpen()).isFalse();
  }

  @Test
  void aFreeConnectionThatEndsIsForgotten() {
    decoder.pull("d1", "t1", 1);
    question().finish("d1");
    rig.settle();
    rig.network().onlyConnection().cut(false);
    rig.settle();
    assertThat(decoder.consumer().connections()).isZero();
    decoder.pull("d2", "t2", 1);
    question().finish("d2");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d1", "d2");
  }

  // Reached, and then no more.

  @Test
  void aConnectionThatBreaksIsFollowedByAReleaseAndFailsWhenThePrefillerSaysThatItIsQuiet() {
    decoder.pull(pullOf("d1", "t1", 1, 2), pullOf("d2", "t2", 3), pullOf("d3", "t3", 4));
    Question pull = question();
    pull.answer(PullResponse.partial(List.of("d3"), List.of(), null, 101));
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d3");
    rig.network().onlyConnection().cut(true);
    Question release = question();
    assertThat(release.release().transferIds()).containsExactly("t1", "t2");
    // It takes its time: a write is under way.
    rig.advanceSeconds(4.9);
    assertThat(decoder.ends()).isEmpty();
    assertThat(decoder.consumer().quarantinedBlocks()).isEqualTo(3);
    release.finish("t1", "t2");
    rig.settle();
    assertThat(decoder.results().failed())
        .hasSize(2)
        .allSatisfy(
            f -> {
              assertThat(f.stage()).isEqualTo(FailureStage.SIDE_CHANNEL);
              assertThat(f.reason()).contains("broke").contains("cut");
              assertThat(f.quiet()).isTrue();
            });
  }

  @Test
  void onePrefillerThatIsGoneIsQuietAfterTheMargin() {
    decoder.pull("d", "t", 1, 2);
    question();
    prefiller.die();
    rig.settle();
    assertThat(decoder.consumer().quarantinedBlocks()).isEqualTo(2);
    rig.advanceSeconds(1.9);
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.2);
    failure(FailureStage.SIDE_CHANNEL);
  }

  @Test
  void onePrefillerThatLivesAndKnowsNoReleasesMayWriteUntilThePullsTimeIsOver() {
    decoder.pull("d", "t", 1);
    question();
    rig.advanceSeconds(10);
    rig.network().onlyConnection().cut(true);
    question().error("required field is missing: remote_hostname");
    rig.settle();
    assertThat(failure(FailureStage.SIDE_CHANNEL).quiet()).isFalse();
    rig.advanceSeconds(79.9);
    assertThat(decoder.results().quieted()).as("its prefill may end, and be written").isEmpty();
    assertThat(decoder.consumer().quarantinedBlocks()).isEqualTo(1);
    rig.advanceSeconds(0.2);
    assertThat(onlyQuieted().quiet()).isTrue();
  }

  @Test
  void aReleaseWhoseConnectionBreaksTooIsTriedAgain() {
    decoder.pull("d", "t", 1);
    question();
    rig.network().onlyConnection().cut(true);
    question();
    rig.network().onlyConnection().cut(true);
    rig.advanceSeconds(1);
    question().finish("t");
    rig.settle();
    failure(FailureStage.SIDE_CHANNEL);
  }

  @Test
  void aPrefillerOutOfReachIsReportedInSecondsAndItsBlocksAreKeptUntilItIsAsked() {
    decoder.pull("d", "t", 1);
    question();
    rig.network().stall(prefiller.address());
    rig.network().onlyConnection().cut(true);
    rig.advanceSeconds(4.9);
    assertThat(decoder.ends()).isEmpty();
    rig.advanceSeconds(0.2);
    Failure failure = failure(FailureStage.SIDE_CHANNEL);
    assertThat(failure.quiet()).isFalse();
    rig.network().onlyConnection().cut(true);
    rig.advanceSeconds(20);
    assertThat(decoder.results().isEmpty()).isTrue();
    rig.network().unstall(prefiller.address());
    question().finish("t");
    rig.settle();
    assertThat(onlyQuieted()).isEqualTo(failure.quieted());
  }

  @Test
  void aRequestIdIsFreeAgainBeforeItsOldBlocksAreQuiet() {
    decoder.pull("d", "t", 1);
    question();
    rig.network().stall(prefiller.address());
    rig.network().onlyConnection().cut(true);
    rig.advanceSeconds(5.1);
    assertThat(failure(FailureStage.SIDE_CHANNEL).quiet()).isFalse();
    rig.network().unstall(prefiller.address());
    Question release = question();
    decoder.pull("d", "t2", 2);
    question().finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
    release.finish("t");
    rig.settle();
    assertThat(onlyQuieted().transferId()).isEqualTo("t");
  }

  @Test
  void aReleaseThatIsNeverAnsweredEndsWithThePullsOwnDeadline() {
    decoder.pull("d", "t", 1);
    question();
    rig.network().onlyConnection().cut(true);
    question();
    rig.advanceSeconds(5.1);
    assertThat(failure(FailureStage.SIDE_CHANNEL).quiet()).isFalse();
    rig.advanceSeconds(84.8);
    assertThat(decoder.results().quieted()).isEmpty();
    rig.advanceSeconds(2.2);
    onlyQuieted();
    assertThat(rig.network().connections()).isEmpty();
  }

  @Test
  void aReleasesOwnPullNeedsNoProof() {
    decoder.pull("d", "t");
    question();
    prefiller.die();
    rig.settle();
    assertThat(decoder.consumer().pulls()).isZero();
  }

  @Test
  void silenceIsAFailureAfterTheAbortTimeoutAndAMinute() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    FakeConnection connection = rig.network().onlyConnection();
    rig.advanceSeconds(89.9);
    assertThat(decoder.ends()).isEmpty();
    assertThat(prefiller.questions()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(connection.isOpen()).as("a late answer finds nobody").isFalse();
    pull.finish("d");
    assertThat(rig.network().droppedReplies()).isEqualTo(1);
    assertThat(decoder.ends()).isEmpty();
    question().finish("t");
    rig.settle();
    assertThat(failure(FailureStage.SIDE_CHANNEL).reason()).contains("not answered in time");
  }

  @Test
  void anAnswerLostAfterTheTransferIsAFailureAndNoHang() {
    decoder.pull("d", "t", 1);
    Question pull = question();
    FakeConnection connection = rig.network().onlyConnection();
    connection.holdReplies();
    pull.finish("d");
    assertThat(connection.dropReplies()).isEqualTo(1);
    connection.release();
    rig.advanceSeconds(90.1);
    question().finish();
    rig.settle();
    failure(FailureStage.SIDE_CHANNEL);
  }

  // Closing.

  @Test
  void closingFailsEverythingOnce() {
    decoder.pull("margin", "t1", 1);
    question().failUnproven("transfer engine: -1", "margin");
    rig.settle();
    decoder.pull("proof", "t2", 2);
    question();
    rig.network().onlyConnection().cut(true);
    question();
    decoder.pull("asked", "t3", 3);
    Question asked = question();
    decoder.pull("cancelled", "t4", 4);
    question();
    decoder.cancel("cancelled");
    question();
    rig.bootstrap().answerAlways(null);
    decoder.directory().forget(CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP);
    decoder.pull(pullOf("resolving", "t5", 5), pullOf("only a release", "t6"));
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    decoder.loop().post(() -> decoder.consumer().close("the connector is closed"));
    rig.settle();
    assertThat(decoder.ends())
        .containsExactlyInAnyOrder(
            "margin=TRANSFER",
            "proof=SIDE_CHANNEL",
            "asked=SHUTDOWN",
            "cancelled=ABORTED",
            "resolving=SHUTDOWN");
    List<String> letGo =
        prefiller.questions().stream().flatMap(q -> q.release().transferIds().stream()).toList();
    assertThat(letGo).as("a prefiller keeps nothing for one that is gone").contains("t3", "t4");
    assertThat(decoder.consumer().courtesies()).isEqualTo(decoder.consumer().connections());
    asked.finish("asked");
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    decoder.loop().post(() -> decoder.consumer().close("the connector is closed"));
    decoder.pull("late", "t7", 7);
    rig.advanceSeconds(200);
    assertThat(decoder.ends()).containsExactly("late=SHUTDOWN");
    assertThat(prefiller.questions()).isEmpty();
  }

  // Sleep mode.

  @Test
  void pullsUnderWayGoOnWhileTheCachesAreBeingGivenBack() {
    decoder.pull("asked", "t1", 1);
    Question asked = question();
    rig.bootstrap().answerAlways(null);
    decoder.directory().forget(CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP);
    decoder.pull("resolving", "t2", 2);
    rig.settle();
    decoder.consumer().detach();
    rig.bootstrap().answer(CoreRig.engineAt(prefiller.address()));
    rig.settle();
    Question resolved = prefiller.question();
    resolved.finish("resolving");
    asked.finish("asked");
    rig.settle();
    assertThat(decoder.ends()).containsExactlyInAnyOrder("asked", "resolving");
    decoder.attach();
    decoder.pull("named", "t3", 3);
    question().finish("named");
    rig.settle();
    decoder.pull("missed", "t4", 4);
    Question named = question();
    assertThat(named.pull().layout().isEmpty()).isTrue();
    decoder.consumer().detach();
    named.answer(PullResponse.layoutMiss("forgotten"));
    question().finish("missed");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("named", "missed");
  }
}
