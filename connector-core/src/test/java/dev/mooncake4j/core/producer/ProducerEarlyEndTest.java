package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.rig.RawDecoder.Asked;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * A prefill whose finished blocks are being written is given up, fails, is let go or outlives its
 * decoder: nobody is told, and no block is given back, before its write is over.
 */
class ProducerEarlyEndTest extends EarlyPrefill {

  @Test
  void aPrefillGivenUpDuringAWriteIsAnsweredAndGivenBackWhenTheWriteIsOver() {
    Asked asked = firstOfTwoIsBeingWritten();
    prefiller.giveUp("p", "t", "the prefill was aborted");
    rig.settle();
    assertThat(asked.answers()).as("a write may still come").isEmpty();
    assertThat(prefiller.sent()).as("the write reads the blocks").isEmpty();
    assertThat(prefiller.producer().pinnedBlocks()).isEqualTo(1);
    Asked late = decoder.pull(at, "d", "t", 30);
    rig.settle();
    assertFailed(late, "the prefill was aborted");
    complete();
    assertFailed(asked, "the prefill was aborted");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void aPrefillGivenUpBetweenWritesIsGivenBackAtOnce() {
    Asked asked = firstOfTwoIsBeingWritten();
    complete();
    prefiller.giveUp("p", "t", "the prefill failed");
    rig.settle();
    assertFailed(asked, "the prefill failed");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void oneThatIsNotKnownIsGivenBackAtOnceToo() {
    prefiller.giveUp("p", "t", "the prefill failed");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    prefiller.announce("q", "u");
    prefiller.giveUp("p", "u", "another's");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    prefiller.cancel("q", "u", "given up");
    rig.settle();
  }

  @Test
  void aPullWhoseTimeIsOverDuringAWriteIsAnsweredAfterIt() {
    Asked asked = firstOfTwoIsBeingWritten();
    rig.advanceSeconds(31);
    assertThat(asked.answers()).isEmpty();
    progress(2, 1, 3);
    complete();
    assertFailed(asked, "timed out waiting for its prefill");
    assertThat(prefiller.transfers().submitted()).as("nothing for nobody").isEqualTo(1);
    prefiller.cancel("p", "t", "given up");
    rig.settle();
  }

  @Test
  void aDecoderThatIsGoneGetsNoMoreAndAnotherIsServed() {
    begin(1, 3, 5);
    Asked gone = pull(20, 22, 24);
    progress(1, 1, 3, 5);
    gone.connection().cut(true);
    rig.settle();
    complete();
    progress(2, 1, 3, 5);
    assertThat(prefiller.transfers().pending()).isZero();
    Asked again = pull(30, 32, 34);
    complete();
    ready(1, 3, 5);
    complete();
    assertServed(again);
    assertHolds(1, 30);
    assertHolds(5, 34);
    assertThat(prefiller.producer().waitingPulls()).isZero();
  }

  @Test
  void aDecoderThatLetsGoIsAnsweredWhenItsWriteIsOver() {
    Asked asked = firstOfTwoIsBeingWritten();
    Asked release = decoder.release(at, "t");
    rig.settle();
    assertThat(release.answers()).as("the answer proves that all is quiet").isEmpty();
    assertThat(asked.answers()).isEmpty();
    complete();
    assertFailed(asked, "was released");
    assertThat(release.answer().okRequests()).containsExactly("t");
    progress(2, 1, 3);
    assertThat(prefiller.transfers().pending()).isZero();
    ready(1, 3);
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void aReadySendThatWasLetGoIsGivenBackWhenItsEarlyWriteIsOver() {
    Asked asked = firstOfTwoIsBeingWritten();
    prefiller.release("t");
    ready(1, 3);
    assertThat(prefiller.sent()).isEmpty();
    complete();
    assertFailed(asked, "was released");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void aSendThatExpiresWhileTheRestWaitsIsToldWhenItsWriteIsOver() {
    Asked asked = firstOfTwoIsBeingWritten();
    ready(1, 3);
    rig.advanceSeconds(31);
    assertThat(prefiller.sent()).isEmpty();
    complete();
    assertFailed(asked, "expired");
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
    assertThat(prefiller.transfers().submitted()).isEqualTo(1);
  }

  @Test
  void aFailedEarlyWriteIsToldAtOnceAndTheTransferStays() {
    Asked asked = firstOfTwoIsBeingWritten();
    prefiller.transfers().only().fail("made to fail");
    rig.settle();
    assertFailed(asked, "made to fail");
    assertThat(prefiller.listener().transferFailures()).hasSize(1);
    Asked again = pull(30, 32);
    complete();
    ready(1, 3);
    complete();
    assertServed(again);
    assertHolds(1, 30);
    assertHolds(3, 32);
  }

  @Test
  void anEarlyWriteThatFailsAfterThePrefillHasEndedFailsTheRequest() {
    Asked asked = firstOfTwoIsBeingWritten();
    ready(1, 3);
    prefiller.transfers().only().fail("made to fail");
    rig.settle();
    assertFailed(asked, "made to fail");
    prefiller.release("t");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void anEarlyWriteThatCannotBeStartedFailsTheRequest() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    prefiller.transfers().failSubmits(new IllegalStateException("no threads"));
    progress(1, 1, 3);
    assertFailed(asked, "no threads");
    prefiller.cancel("p", "t", "given up");
    rig.settle();
  }

  @Test
  void closingAnswersWhenTheWriteIsOver() {
    Asked asked = firstOfTwoIsBeingWritten();
    prefiller.loop().post(() -> prefiller.producer().close("the connector is closed"));
    ready(1, 3);
    assertThat(asked.answers()).isEmpty();
    assertThat(prefiller.sent()).as("still being read").isEmpty();
    complete();
    assertFailed(asked, "the connector is closed");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void whileNoCachesAreRegisteredNothingIsWritten() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    prefiller.loop().post(prefiller.producer()::detach);
    progress(1, 1, 3);
    assertThat(prefiller.transfers().pending()).isZero();
    prefiller.loop().post(prefiller::attach);
    progress(2, 1, 3);
    complete();
    ready(1, 3);
    assertServed(asked);
  }

  @Test
  void aDecoderThatIsGoneDuringAWriteHoldsTheBlocksUntilThatIsOver() {
    Asked gone = firstOfTwoIsBeingWritten();
    gone.connection().cut(true);
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    prefiller.giveUp("p", "t", "the prefill was aborted");
    rig.settle();
    assertThat(prefiller.sent()).as("the write reads the blocks").isEmpty();
    complete();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void aDecoderThatIsGoneAfterThePrefillGetsNoRestAndAnotherTryIsServed() {
    Asked gone = firstOfTwoIsBeingWritten();
    ready(1, 3);
    gone.connection().cut(true);
    rig.settle();
    complete();
    assertThat(prefiller.transfers().submitted())
        .as("no write begins for one that is known to be gone")
        .isEqualTo(1);
    assertThat(prefiller.sent()).isEmpty();
    Asked again = pull(30, 32);
    complete();
    assertServed(again);
    assertHolds(1, 30);
    assertHolds(3, 32);
  }

  @Test
  void anEarlyWriteThatFailsAfterThePrefillWasGivenUpGivesTheBlocksBack() {
    Asked asked = firstOfTwoIsBeingWritten();
    prefiller.giveUp("p", "t", "the prefill was aborted");
    rig.settle();
    prefiller.transfers().only().fail("made to fail");
    rig.settle();
    assertFailed(asked, "the prefill was aborted");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void ofTwoWritesOneFailsAndIsToldWhenTheOtherIsOver() {
    Asked asked = twoOfThreeAreBeingWritten();
    List<ManualTransfers.Transfer> two = prefiller.transfers().underWay();
    two.getLast().fail("made to fail");
    rig.settle();
    assertThat(asked.answers()).as("the other may still write").isEmpty();
    progress(3, 1, 3, 5);
    assertThat(prefiller.transfers().submitted()).as("no more for it").isEqualTo(2);
    two.getFirst().fail("for another reason");
    rig.settle();
    assertFailed(asked, "made to fail");
    assertThat(prefiller.producer().waitingPulls()).isZero();
    Asked again = pull(30, 32, 34);
    complete();
    ready(1, 3, 5);
    complete();
    assertServed(again);
    assertHolds(1, 30);
    assertHolds(5, 34);
  }

  @Test
  void ofTwoWritesOneFailsThePrefillEndsAndTheOtherIsStillWaitedFor() {
    Asked asked = twoOfThreeAreBeingWritten();
    List<ManualTransfers.Transfer> two = prefiller.transfers().underWay();
    two.getFirst().fail("made to fail");
    rig.settle();
    ready(1, 3, 5);
    prefiller.release("t");
    rig.settle();
    assertThat(prefiller.sent()).as("it is still being read").isEmpty();
    two.getLast().complete();
    rig.settle();
    assertFailed(asked, "made to fail");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    assertThat(prefiller.transfers().submitted()).isEqualTo(2);
  }

  @Test
  void ofTwoWritesOneFailsAfterThePrefillHasEndedAndTheRestIsNotWritten() {
    Asked asked = twoOfThreeAreBeingWritten();
    ready(1, 3, 5);
    List<ManualTransfers.Transfer> two = prefiller.transfers().underWay();
    two.getFirst().fail("made to fail");
    rig.settle();
    assertThat(asked.answers()).isEmpty();
    two.getLast().complete();
    rig.settle();
    assertFailed(asked, "made to fail");
    assertThat(prefiller.transfers().submitted()).isEqualTo(2);
    prefiller.release("t");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void aPrefillGivenUpDuringTwoWritesIsAnsweredAndGivenBackWhenBothAreOver() {
    Asked asked = twoOfThreeAreBeingWritten();
    prefiller.giveUp("p", "t", "the prefill was aborted");
    rig.settle();
    List<ManualTransfers.Transfer> two = prefiller.transfers().underWay();
    two.getLast().complete();
    rig.settle();
    assertThat(asked.answers()).isEmpty();
    assertThat(prefiller.sent()).isEmpty();
    two.getFirst().complete();
    rig.settle();
    assertFailed(asked, "the prefill was aborted");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void closingTellsWhyAlsoWhereTheRestWaitsForAWrite() {
    Asked asked = firstOfTwoIsBeingWritten();
    ready(1, 3);
    prefiller.loop().post(() -> prefiller.producer().close("the connector is closed"));
    rig.settle();
    complete();
    assertFailed(asked, "the connector is closed");
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }
}
