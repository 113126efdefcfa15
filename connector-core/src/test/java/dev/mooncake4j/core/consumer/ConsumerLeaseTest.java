package dev.mooncake4j.core.consumer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.config.CapturedLog;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.wire.PullResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A decoder keeps the leases of the requests that wait for their turn, and of no others. */
class ConsumerLeaseTest {
  private final CoreRig rig =
      new CoreRig(RigOptions.defaults().withLease(Duration.ofSeconds(12)).withRanks(0, 1));
  private final RigDecoder decoder = rig.decoder();
  private final RawPrefiller prefiller = rig.rawPrefiller();

  @BeforeEach
  void register() {
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(prefiller.address())));
  }

  @AfterEach
  void nothingIsLeft() {
    assertThat(decoder.loop().failedEvents()).isZero();
    assertThat(decoder.consumer().leases()).isZero();
    rig.advanceSeconds(61);
    assertThat(decoder.loop().pendingDeadlines()).isZero();
    assertThat(prefiller.questions()).as("renewals of what has ended").isEmpty();
    rig.close();
  }

  private Question renewal(double afterSeconds, String... transferIds) {
    rig.advanceSeconds(afterSeconds);
    Question question = prefiller.question();
    assertThat(question.renew().transferIds()).containsExactlyInAnyOrder(transferIds);
    return question;
  }

  private void end(String requestId) {
    decoder.cancel(requestId);
    rig.settle();
  }

  private void pullAndEnd(String requestId, String transferId) {
    decoder.pull(requestId, transferId, 1);
    rig.settle();
    prefiller.question().finish(requestId);
    rig.settle();
    assertThat(decoder.ends()).containsExactly(requestId);
  }

  @Test
  void everySixthOfTheLeaseOneMessageForAllThatWait() {
    decoder.arrive("d1", "t1");
    decoder.arrive("d2", "t2");
    rig.advanceSeconds(1.9);
    assertThat(prefiller.questions()).isEmpty();
    renewal(0.2, "t1", "t2").finish("t1", "t2");
    renewal(2, "t1", "t2").finish("t1", "t2");
    assertThat(decoder.consumer().leases()).isEqualTo(2);
    pullAndEnd("d1", "t1");
    renewal(2, "t2").finish("t2");
    pullAndEnd("d2", "t2");
  }

  @Test
  void aPrefillerThatDoesNotAnswerIsNotToldAgainAndAgain() {
    decoder.arrive("d", "t");
    renewal(2.1, "t");
    rig.advanceSeconds(4.8);
    assertThat(prefiller.questions()).as("the first is not answered yet").isEmpty();
    assertThat(decoder.consumer().connections()).isEqualTo(1);
    assertThat(decoder.consumer().courtesies()).isEqualTo(1);
    // It is given up after five seconds, and the next one is sent.
    renewal(2, "t").finish("t");
    pullAndEnd("d", "t");
    assertThat(decoder.consumer().courtesies()).isZero();
  }

  @Test
  void renewedUntilThePullHasSettled() {
    decoder.arrive("d", "t");
    decoder.pull("d", "t", 1);
    rig.settle();
    Question pull = prefiller.question();
    renewal(2.1, "t").finish("t");
    pull.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void aPrefillerWithoutLeasesIsAskedOnAndNothingElseSuffers() {
    decoder.arrive("d", "t");
    try (CapturedLog log = new CapturedLog()) {
      renewal(2.1, "t").error("required field is missing: remote_hostname");
      renewal(2, "t").error("required field is missing: remote_hostname");
      pullAndEnd("d", "t");
      assertThat(log.lines("WARN"))
          .as("once for this prefiller")
          .singleElement()
          .asString()
          .contains(prefiller.address())
          .contains("kv_lease_duration")
          .contains("required field is missing");
    }
  }

  @Test
  void aLeaseThatIsGoneThereIsLeftToThePullToFindOut() {
    decoder.arrive("d", "t");
    try (CapturedLog log = new CapturedLog()) {
      renewal(2.1, "t").answer(PullResponse.finished(List.of(), List.of("t"), null, 0));
      pullAndEnd("d", "t");
      assertThat(log.lines("WARN")).isEmpty();
    }
  }

  @Test
  void whereNobodyIsRegisteredNothingIsSent() {
    rig.bootstrap().answerAlways(List.of());
    decoder.arrive("d", "t");
    rig.advanceSeconds(5);
    assertThat(prefiller.questions()).isEmpty();
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(prefiller.address())));
    renewal(2, "t").finish("t");
    pullAndEnd("d", "t");
  }

  @Test
  void aRenewalThatIsNotAnsweredIsGivenUpAndTheNextIsSent() {
    decoder.arrive("d", "t");
    renewal(2.1, "t");
    renewal(6, "t").finish("t");
    pullAndEnd("d", "t");
    rig.advanceSeconds(6);
    assertThat(decoder.consumer().lateReplies()).isZero();
  }

  @Test
  void aRequestThatIsGivenUpIsRenewedNoMore() {
    decoder.arrive("d", "t");
    renewal(2.1, "t").finish("t");
    decoder.pull("d", "t", 1);
    rig.settle();
    Question pull = prefiller.question();
    end("d");
    Question release = prefiller.question();
    assertThat(release.release().transferIds()).containsExactly("t");
    release.finish("t");
    pull.failQuietly("given up", "d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }

  @Test
  void closingEndsRenewals() {
    decoder.arrive("d", "t");
    rig.settle();
    decoder.consumer().close("the connector is closed");
    assertThat(decoder.consumer().leases()).isZero();
  }
}
