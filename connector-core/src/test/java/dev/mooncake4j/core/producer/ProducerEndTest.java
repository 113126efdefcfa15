package dev.mooncake4j.core.producer;

import static dev.mooncake4j.core.rig.RawDecoder.entry;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.producer.ManualTransfers.Transfer;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.PullResponse.Status;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** How a transfer ends at the prefiller when it is not simply served. */
class ProducerEndTest {
  private final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(1, 0));
  private final RigPrefiller prefiller = rig.prefiller();
  private final String at = prefiller.address();
  private final RawDecoder decoder = rig.rawDecoder();

  @AfterEach
  void nothingIsLeft() {
    assertThat(prefiller.loop().failedEvents()).isZero();
    assertThat(prefiller.producer().sends()).isZero();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(prefiller.transfers().pending()).isZero();
    rig.advanceSeconds(121);
    assertThat(prefiller.loop().pendingDeadlines()).as("deadlines, tombstones too").isZero();
    rig.close();
  }

  private static void assertFailed(PullResponse answer, String requestId, String reason) {
    assertThat(answer.errorRequests()).containsExactly(requestId);
    assertThat(answer.okRequests()).isEmpty();
    assertThat(answer.message()).contains(reason);
    assertThat(answer.quiet()).isTrue();
  }

  // Given up.

  @Test
  void aCancelledPrefillTellsTheDecoderThatWaits() {
    prefiller.announce("p", "t");
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.cancel("p", "t", "the prefill was aborted");
    rig.settle();
    assertFailed(asked.answer(), "d", "the prefill was aborted");
    assertThat(prefiller.sent()).as("the server has its blocks already").isEmpty();
  }

  @Test
  void aPullAfterTheCancellationIsToldFromMemoryForTwoMinutes() {
    prefiller.announce("p", "t");
    prefiller.cancel("p", "t", "the prefill failed");
    rig.advanceSeconds(119);
    Asked late = decoder.pull(at, "d", "t", 3);
    rig.settle();
    assertFailed(late.answer(), "d", "the prefill failed");
    rig.advanceSeconds(2);
    Asked later = decoder.pull(at, "d", "t", 3);
    rig.settle();
    assertThat(later.answers()).as("forgotten: it waits").isEmpty();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(1);
    rig.advanceSeconds(30);
    assertFailed(later.answer(), "d", "timed out");
  }

  @Test
  void aCancellationOfWhatWasNeverAnnouncedTellsWhoWaitsAndWhoComes() {
    Asked waits = decoder.pull(at, "d1", "t", 3);
    rig.settle();
    prefiller.cancel("p", "t", "refused");
    rig.settle();
    assertFailed(waits.answer(), "d1", "refused");
    Asked comes = decoder.pull(at, "d2", "t", 3);
    rig.settle();
    assertFailed(comes.answer(), "d2", "refused");
  }

  @Test
  void aCancellationOfAnotherRequestChangesNothing() {
    prefiller.ready("p", "t", 1);
    prefiller.cancel("q", "t", "not this one");
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void aCancellationOfWhatIsReadyGivesItsBlocksBack() {
    prefiller.ready("p", "t", 1);
    prefiller.cancel("p", "t", "changed its mind");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    Asked late = decoder.pull(at, "d", "t", 3);
    rig.settle();
    assertFailed(late.answer(), "d", "changed its mind");
  }

  @Test
  void anIdAnnouncedAgainAfterACancellationIsServed() {
    prefiller.announce("p", "t");
    prefiller.cancel("p", "t", "aborted");
    prefiller.announce("p", "t");
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.ready("p", "t", 1);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  // Expired.

  @Test
  void blocksThatNobodyFetchesExpireAfterTheAbortTimeout() {
    prefiller.announce("p", "t");
    rig.advanceSeconds(20);
    prefiller.ready("p", "t", 1);
    rig.advanceSeconds(29.9);
    assertThat(prefiller.sent()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
    assertThat(prefiller.listener().expired()).containsExactly("t");
    Asked late = decoder.pull(at, "d", "t", 3);
    rig.settle();
    assertFailed(late.answer(), "d", "expired");
    assertThat(prefiller.transfers().submitted()).isZero();
  }

  @Test
  void aPullWaitsAtMostTheAbortTimeout() {
    Asked unknown = decoder.pull(at, "d1", "never", 3);
    prefiller.announce("p", "t");
    rig.advanceSeconds(10);
    Asked known = decoder.pull(at, "d2", "t", 4);
    rig.advanceSeconds(19.9);
    assertThat(unknown.answers()).isEmpty();
    rig.advanceSeconds(0.2);
    assertFailed(unknown.answer(), "d1", "timed out waiting for its prefill");
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(1);
    rig.advanceSeconds(10);
    assertFailed(known.answer(), "d2", "timed out waiting for its prefill");
    // The prefill itself goes on.
    prefiller.ready("p", "t", 1);
    Asked again = decoder.pull(at, "d2", "t", 4);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(again.answer().okRequests()).containsExactly("d2");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void oneRequestOfAPullTimesOutAndTheOthersGoOn() {
    prefiller.announce("p2", "t2");
    Asked asked = decoder.pull(at, entry("d1", "t1", 3), entry("d2", "t2", 4));
    rig.advanceSeconds(29);
    prefiller.ready("p2", "t2", 2);
    rig.advanceSeconds(2);
    PullResponse first = asked.answer();
    assertThat(first.status()).isEqualTo(Status.CONTINUE);
    assertFailed(first, "d1", "timed out");
    prefiller.transfers().completeAll();
    rig.settle();
    PullResponse last = asked.answer();
    assertThat(last.status()).isEqualTo(Status.FINISH);
    assertThat(last.okRequests()).containsExactly("d2");
  }

  @Test
  void aTransferUnderWayHoldsItsBlocksPastTheExpiry() {
    prefiller.cache().fill(9, 1, 2);
    prefiller.ready("p", "t", 1, 2);
    Asked asked = decoder.pull(at, "d", "t", 3, 9);
    rig.settle();
    Transfer transfer = prefiller.transfers().only();
    transfer.write(1);
    rig.advanceSeconds(40);
    assertThat(prefiller.sent()).as("still being read").isEmpty();
    assertThat(prefiller.producer().sends()).isEqualTo(1);
    assertThat(prefiller.producer().leases()).isZero();
    Asked second = decoder.pull(at, "d2", "t", 5, 6);
    rig.settle();
    assertFailed(second.answer(), "d2", "expired");
    assertThat(prefiller.transfers().pending()).isEqualTo(1);
    transfer.complete();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(decoder.cache().holds(9, 3)).isTrue();
    assertThat(decoder.cache().holds(9, 9)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void aPullOfATransferThatIsEndingNeverWaitsHoweverLongThatTakes() {
    prefiller.ready("p", "t", 1);
    decoder.pull(at, "d", "t", 3);
    rig.settle();
    // Past the expiry and past the two minutes for which its end is remembered.
    rig.advanceSeconds(200);
    Asked late = decoder.pull(at, "d2", "t", 4);
    rig.settle();
    assertFailed(late.answer(), "d2", "over");
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void theReaperIsOrderedByExpiry() {
    // Each is ready later than the one before and yet all expire at their own moment.
    for (int i = 0; i < 5; i++) {
      prefiller.ready("p" + i, "t" + i, i);
      rig.advanceSeconds(1);
    }
    rig.advanceSeconds(25.5);
    assertThat(prefiller.sent()).containsExactly("p0=EXPIRED");
    rig.advanceSeconds(1);
    assertThat(prefiller.sent()).containsExactly("p1=EXPIRED");
    rig.advanceSeconds(3);
    assertThat(prefiller.sent()).containsExactly("p2=EXPIRED", "p3=EXPIRED", "p4=EXPIRED");
  }

  // The engine fails.

  @Test
  void anEngineFailureIsToldOnceItIsQuietAndTheBlocksAreKeptForAnother() {
    prefiller.cache().fill(3, 1, 2);
    prefiller.ready("p", "t", 1, 2);
    Asked asked = decoder.pull(at, "d", "t", 3, 9);
    rig.settle();
    Transfer transfer = prefiller.transfers().only();
    transfer.write(1);
    rig.advanceSeconds(5);
    assertThat(asked.answers()).as("not quiet yet").isEmpty();
    transfer.fail("status=-1");
    rig.settle();
    PullResponse answer = asked.answer();
    assertThat(answer.status()).isEqualTo(Status.FINISH);
    assertFailed(answer, "d", "transfer engine: status=-1");
    assertThat(prefiller.listener().transferFailures())
        .containsExactly("1: transfer engine: status=-1");
    assertThat(prefiller.listener().completedBytes()).isEmpty();
    assertThat(prefiller.sent()).isEmpty();

    Asked again = decoder.pull(at, "d", "t", 3, 9);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(again.answer().okRequests()).containsExactly("d");
    assertThat(decoder.cache().holds(3, 3)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void anEngineFailurePastTheExpiryEndsIt() {
    prefiller.ready("p", "t", 1);
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.advanceSeconds(31);
    prefiller.transfers().only().fail("timed out");
    rig.settle();
    assertFailed(asked.answer(), "d", "transfer engine");
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  // Let go.

  @Test
  void aReleaseOfWhatIsReadyGivesItsBlocksBackOnce() {
    prefiller.ready("p", "t", 1);
    Asked first = decoder.release(at, "t");
    rig.settle();
    assertThat(first.answer()).isEqualTo(PullResponse.finished(List.of("t"), List.of(), null, 0));
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    Asked second = decoder.release(at, "t");
    rig.settle();
    assertThat(second.answer().errorRequests()).containsExactly("t");
    assertThat(prefiller.sent()).isEmpty();
    Asked late = decoder.pull(at, "d", "t", 3);
    rig.settle();
    assertFailed(late.answer(), "d", "released");
  }

  @Test
  void aReleaseBeforeThePrefillHasEndedFreesItsBlocksWhenItHas() {
    prefiller.announce("p", "t");
    Asked waits = decoder.pull(at, "d", "t", 3);
    rig.settle();
    decoder.release(at, "t");
    rig.settle();
    assertFailed(waits.answer(), "d", "released");
    assertThat(prefiller.sent()).isEmpty();
    Asked comes = decoder.pull(at, "d2", "t", 3);
    rig.settle();
    assertFailed(comes.answer(), "d2", "released");
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    assertThat(prefiller.transfers().submitted()).isZero();
  }

  @Test
  void aReleaseBeforeTheAnnouncementIsRemembered() {
    Asked waits = decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.release("t");
    rig.settle();
    assertFailed(waits.answer(), "d", "released");
    prefiller.announce("p", "t");
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void aReleaseDuringATransferIsAnsweredWhenNothingIsWrittenAnyMore() {
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    Asked pull = decoder.pull(at, entry("d1", "t1", 3), entry("d2", "t2", 4));
    rig.settle();
    Asked release = decoder.release(at, "t1", "unknown", "t2");
    rig.settle();
    assertThat(prefiller.sent()).isEmpty();
    assertThat(release.answers()).as("the write goes on").isEmpty();
    prefiller.transfers().only().fail("status=-1");
    rig.settle();
    PullResponse answer = release.answer();
    assertThat(answer.status()).isEqualTo(Status.FINISH);
    assertThat(answer.okRequests()).containsExactly("t1", "t2");
    assertThat(answer.errorRequests()).containsExactly("unknown");
    assertThat(pull.answer().errorRequests()).containsExactly("d1", "d2");
    assertThat(prefiller.sent()).containsExactly("p1=RELEASED", "p2=RELEASED");
  }

  // Closing.

  @Test
  void closingTellsAllThatWaitAndGivesEverythingBack() {
    prefiller.announce("p1", "t1");
    prefiller.ready("p2", "t2", 2);
    Asked waits = decoder.pull(at, entry("d1", "t1", 3), entry("d0", "t0", 5));
    rig.settle();
    prefiller.loop().post(() -> prefiller.producer().close("the connector is closed"));
    rig.settle();
    assertThat(waits.answers())
        .allSatisfy(a -> assertThat(a.message()).contains("the connector is closed"))
        .flatExtracting(PullResponse::errorRequests)
        .containsExactlyInAnyOrder("d1", "d0");
    assertThat(prefiller.sent()).containsExactly("p2=RELEASED");
    Asked comes = decoder.pull(at, "d", "t2", 3);
    rig.settle();
    assertThat(comes.answer().status()).isEqualTo(Status.ERROR);
    // A step that was on its way.
    prefiller.ready("p3", "t3", 6);
    prefiller.announce("p4", "t4");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p3=RELEASED");
  }

  @Test
  void closingWaitsForATransferBeforeItsBlocksAreGivenBack() {
    prefiller.ready("p", "t", 1);
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.loop().post(() -> prefiller.producer().close("the connector is closed"));
    rig.settle();
    assertThat(prefiller.sent()).isEmpty();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  // Sleep mode.

  @Test
  void aPrefillThatEndsWhileNoCachesAreRegisteredIsNotRead() {
    Asked waits = decoder.pull(at, "d", "t", 3);
    prefiller.ready("p2", "t2", 2);
    rig.settle();
    prefiller.loop().post(() -> prefiller.producer().detach());
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.transfers().submitted()).isZero();
    assertFailed(waits.answer(), "d", "no kv caches");
    Asked asks = decoder.pull(at, "d2", "t2", 4);
    rig.settle();
    assertThat(asks.answer().status()).isEqualTo(Status.ERROR);
    prefiller.attach();
    for (Asked again :
        new Asked[] {decoder.pull(at, "d", "t", 3), decoder.pull(at, "d2", "t2", 4)}) {
      rig.settle();
      prefiller.transfers().completeAll();
      rig.settle();
      assertThat(again.answer().okRequests()).hasSize(1);
    }
    assertThat(prefiller.sent()).containsExactly("p=SERVED", "p2=SERVED");
  }
}
