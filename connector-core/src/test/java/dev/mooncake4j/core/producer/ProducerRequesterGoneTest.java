package dev.mooncake4j.core.producer;

import static dev.mooncake4j.core.rig.RawDecoder.entry;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A decoder's connection ends while the prefiller has something for it. */
class ProducerRequesterGoneTest {
  private final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(1, 0));
  private final RigPrefiller prefiller = rig.prefiller();
  private final String at = prefiller.address();
  private final RawDecoder decoder = rig.rawDecoder();

  @AfterEach
  void nothingIsLeft() {
    rig.advanceSeconds(121);
    assertThat(prefiller.loop().failedEvents()).isZero();
    assertThat(prefiller.producer().sends()).isZero();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(prefiller.transfers().pending()).isZero();
    assertThat(prefiller.loop().pendingDeadlines()).isZero();
    rig.close();
  }

  @Test
  void itsPullsThatWaitAreForgottenAndNothingIsWrittenWhenThePrefillEnds() {
    prefiller.announce("p", "t");
    Asked asked = decoder.pull(at, "d", "t", 5);
    Asked unknown = decoder.pull(at, "e", "never heard of", 6);
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(2);
    asked.connection().close();
    unknown.connection().cut(true);
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isZero();

    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.transfers().submitted()).isZero();
    assertThat(rig.network().droppedReplies()).isZero();
    rig.advanceSeconds(29);
    assertThat(prefiller.sent()).isEmpty();
    rig.advanceSeconds(1);
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void theTransferIsThereForAnotherTry() {
    prefiller.announce("p", "t");
    Asked first = decoder.pull(at, "d", "t", 5);
    rig.settle();
    first.connection().close();
    rig.settle();
    prefiller.cache().fill(7, 1);
    prefiller.ready("p", "t", 1);
    rig.settle();
    Asked second = decoder.pull(at, "d", "t", 6);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(second.answer().okRequests()).containsExactly("d");
    assertThat(decoder.cache().holds(7, 6)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void othersThatWaitForTheSameTransferAreServed() {
    RawDecoder other = rig.rawDecoder();
    prefiller.announce("p", "t");
    Asked gone = decoder.pull(at, "d", "t", 5);
    Asked stays = other.pull(at, "o", "t", 5);
    rig.settle();
    gone.connection().close();
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(1);
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.transfers().only().session()).isEqualTo(other.session());
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(stays.answer().okRequests()).containsExactly("o");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void whatIsBeingWrittenGoesOnAndTheRestOfThePullIsForgotten() {
    prefiller.ready("p1", "t1", 1);
    prefiller.announce("p2", "t2");
    Asked asked = decoder.pull(at, entry("d1", "t1", 11), entry("d2", "t2", 12));
    rig.settle();
    asked.connection().close();
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p1=SERVED");
    assertThat(rig.network().droppedReplies()).isEqualTo(1);
    prefiller.cancel("p2", "t2", "enough");
    rig.settle();
    assertThat(rig.network().droppedReplies()).isEqualTo(1);
  }

  @Test
  void whatWaitsForAnEngineThreadIsForNobodyAndTheTransferIsThereForAnotherTry() {
    RawDecoder other = rig.rawDecoder();
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    Asked asked = decoder.pull(at, "d1", "t1", 11);
    other.pull(at, "d2", "t2", 12);
    rig.settle();
    List<ManualTransfers.Transfer> transfers = prefiller.transfers().underWay();
    asked.connection().close();
    rig.settle();
    assertThat(transfers)
        .extracting(ManualTransfers.Transfer::isForNobody)
        .containsExactly(true, false);
    transfers.getFirst().leave();
    transfers.getLast().complete();
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p2=SERVED");

    Asked again = decoder.pull(at, "d1", "t1", 11);
    rig.settle();
    assertThat(prefiller.transfers().only().isForNobody()).isFalse();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(again.answer().okRequests()).containsExactly("d1");
    assertThat(prefiller.sent()).containsExactly("p1=SERVED");
  }

  @Test
  void aRequestThatCameBeforeTheEndIsHeardBeforeIt() {
    prefiller.announce("p", "t");
    rig.settle();
    Asked asked = decoder.pull(at, "d", "t", 5);
    asked.connection().holdRequests();
    rig.settle();
    asked.connection().cut(true);
    rig.settle();
    asked.connection().release();
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    prefiller.release("t");
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.transfers().submitted()).isZero();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }
}
