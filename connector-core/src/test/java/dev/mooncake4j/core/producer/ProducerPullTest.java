package dev.mooncake4j.core.producer;

import static dev.mooncake4j.core.rig.RawDecoder.entry;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
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

/** A pull meets a transfer, in every order. */
class ProducerPullTest {
  private final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(1, 0));
  private final RigPrefiller prefiller = rig.prefiller();
  private final String at = prefiller.address();
  private final RawDecoder decoder = rig.rawDecoder();

  @AfterEach
  void nothingIsLeft() {
    assertThat(prefiller.loop().failedEvents()).isZero();
    rig.close();
  }

  private void assertIdle() {
    assertThat(prefiller.producer().sends()).isZero();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(prefiller.producer().leases()).isZero();
    assertThat(prefiller.transfers().pending()).isZero();
  }

  @Test
  void aPullAfterThePrefillIsServedAtOnce() {
    prefiller.cache().fill(7, 1, 2);
    prefiller.ready("p", "t", 1, 2);
    Asked asked = decoder.pull(at, "d", "t", 5, 4);
    rig.settle();
    assertThat(asked.answers()).isEmpty();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(asked.answer()).isEqualTo(PullResponse.finished(List.of("d"), List.of(), null, 0));
    assertThat(decoder.cache().holds(7, 5)).isTrue();
    assertThat(decoder.cache().holds(7, 4)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertThat(prefiller.listener().completedBytes()).containsExactly(4L * 32);
    assertIdle();
  }

  @Test
  void aPullBeforeTheAnnouncementWaitsForThePrefill() {
    Asked asked = decoder.pull(at, "d", "t", 5);
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(1);
    prefiller.announce("p", "t");
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(1);
    prefiller.cache().fill(8, 3);
    prefiller.ready("p", "t", 3);
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(asked.answers()).isEmpty();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(decoder.cache().holds(8, 5)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void itIsToldHowLongEachRequestHasWaitedForItsPrefill() {
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    decoder.pull(at, "d1", "t1", 5);
    decoder.pull(at, "d3", "t3", 6);
    decoder.pull(at, "release", "t2");
    decoder.pull(at, "never", "t4", 7);
    rig.settle();
    rig.advanceSeconds(3);
    prefiller.ready("p3", "t3", 3);
    rig.settle();
    assertThat(prefiller.listener().waits()).containsExactly(0L, 3_000_000_000L);
    prefiller.transfers().completeAll();
    rig.advanceSeconds(60);
    assertThat(prefiller.listener().waits()).hasSize(2);
  }

  @Test
  void blocksArePinnedUntilTheLastWriteIsOver() {
    prefiller.ready("p1", "t1", 1, 2);
    prefiller.ready("p2", "t2", 3);
    decoder.pull(at, "d1", "t1", 5, 6);
    rig.settle();
    assertThat(prefiller.producer().pinnedBlocks()).isEqualTo(3);
    prefiller.release("t1");
    prefiller.release("t2");
    rig.settle();
    assertThat(prefiller.producer().pinnedBlocks()).as("t1 is still written").isEqualTo(2);
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(prefiller.producer().pinnedBlocks()).isZero();
    assertIdle();
  }

  @Test
  void aWaitingPullIsNoTransferAndItsDeadlineGoesWithIt() {
    prefiller.announce("p", "t");
    Asked asked = decoder.pull(at, "d", "t", 5);
    rig.settle();
    assertThat(prefiller.transfers().pending()).isZero();
    int before = prefiller.loop().pendingDeadlines();
    prefiller.ready("p", "t", 3);
    rig.settle();
    // The waiter's deadline has become the lease's.
    assertThat(prefiller.loop().pendingDeadlines()).isEqualTo(before);
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(asked.answer().status()).isEqualTo(Status.FINISH);
    rig.advanceSeconds(29);
    assertThat(asked.answers()).isEmpty();
  }

  @Test
  void onePullOfSeveralRequestsIsAnsweredAsTheyGetReady() {
    decoder.nameLayout(77);
    prefiller.ready("p1", "t1", 1);
    prefiller.announce("p2", "t2");
    prefiller.announce("p3", "t3");
    Asked asked =
        decoder.pull(at, entry("d1", "t1", 11), entry("d2", "t2", 12), entry("d3", "t3", 13));
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(asked.answer()).isEqualTo(PullResponse.partial(List.of("d1"), List.of(), null, 77));

    prefiller.cancel("p2", "t2", "aborted");
    rig.settle();
    PullResponse second = asked.answer();
    assertThat(second.status()).isEqualTo(Status.CONTINUE);
    assertThat(second.errorRequests()).containsExactly("d2");
    assertThat(second.okRequests()).isEmpty();
    assertThat(second.message()).contains("t2").contains("aborted");
    assertThat(second.quiet()).isTrue();

    prefiller.ready("p3", "t3", 3);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(asked.answer()).isEqualTo(PullResponse.finished(List.of("d3"), List.of(), null, 77));
    assertThat(prefiller.sent()).containsExactly("p1=SERVED", "p3=SERVED");
    assertIdle();
  }

  @Test
  void requestsReadyInOneStepGoInOneTransfer() {
    Asked asked = decoder.pull(at, entry("d1", "t1", 11), entry("d2", "t2", 12));
    rig.settle();
    prefiller.ready(
        new StepPlan.Ready("p1", "t1", BlockIds.of(1)),
        new StepPlan.Ready("p2", "t2", BlockIds.of(2)));
    rig.settle();
    assertThat(prefiller.transfers().only().parts()).isEqualTo(2);
    prefiller.transfers().completeAll();
    rig.settle();
    PullResponse answer = asked.answer();
    assertThat(answer.status()).isEqualTo(Status.FINISH);
    assertThat(answer.okRequests()).containsExactly("d1", "d2");
    assertThat(prefiller.sent()).containsExactlyInAnyOrder("p1=SERVED", "p2=SERVED");
  }

  @Test
  void aPullThatOnlyReleasesWritesNothing() {
    prefiller.ready("p", "t", 1, 2);
    Asked asked = decoder.pull(at, "d", "t");
    rig.settle();
    assertThat(prefiller.transfers().submitted()).isZero();
    assertThat(asked.answer()).isEqualTo(PullResponse.finished(List.of("d"), List.of(), null, 0));
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void aPullThatOnlyReleasesWaitsForThePrefillToo() {
    prefiller.announce("p", "t");
    Asked asked = decoder.pull(at, "d", "t");
    rig.settle();
    assertThat(asked.answers()).isEmpty();
    prefiller.ready("p", "t", 1, 2);
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void aReleaseNeedsNoLayout() {
    decoder.nameLayout(99);
    prefiller.ready("p", "t", 1);
    Asked asked = decoder.pullNamingLayout(at, entry("d", "t"));
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void releasesAndTransfersMixInOnePull() {
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    Asked asked = decoder.pull(at, entry("d1", "t1"), entry("d2", "t2", 12));
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d1");
    prefiller.transfers().only().complete();
    rig.settle();
    PullResponse last = asked.answer();
    assertThat(last.status()).isEqualTo(Status.FINISH);
    assertThat(last.okRequests()).containsExactly("d2");
  }

  @Test
  void aPullWithNoRequestsIsAnswered() {
    decoder.nameLayout(55);
    Asked asked = decoder.pull(at);
    rig.settle();
    assertThat(asked.answer()).isEqualTo(PullResponse.finished(List.of(), List.of(), null, 55));
    // Its layout is kept all the same.
    prefiller.ready("p", "t", 1);
    Asked named = decoder.pullNamingLayout(at, entry("d", "t", 3));
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(named.answer().okRequests()).containsExactly("d");
  }

  @Test
  void fewerBlocksThanHeldAreTheLastOnes() {
    prefiller.cache().fill(1, 1);
    prefiller.cache().fill(2, 2);
    prefiller.cache().fill(3, 3);
    prefiller.ready("p", "t", 1, 2, 3);
    decoder.pull(at, "d", "t", 20, 21);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(decoder.cache().holds(2, 20)).isTrue();
    assertThat(decoder.cache().holds(3, 21)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void moreBlocksThanHeldIsAnErrorAndASmallerPullIsServedLater() {
    prefiller.cache().fill(4, 1, 2);
    prefiller.ready("p", "t", 1, 2);
    Asked greedy = decoder.pull(at, "d", "t", 20, 21, 22);
    rig.settle();
    assertThat(prefiller.transfers().only().left()).isZero();
    prefiller.transfers().only().complete();
    rig.settle();
    PullResponse refused = greedy.answer();
    assertThat(refused.errorRequests()).containsExactly("d");
    assertThat(refused.message()).contains("3").contains("2").contains("blocks");
    assertThat(refused.quiet()).isTrue();
    assertThat(prefiller.sent()).isEmpty();
    assertThat(prefiller.producer().leases()).isEqualTo(1);
    assertThat(decoder.cache().holds(4, 20)).isFalse();

    Asked modest = decoder.pull(at, "d", "t", 20, 21);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(modest.answer().okRequests()).containsExactly("d");
    assertThat(decoder.cache().holds(4, 20)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void aBlockIdOutsideTheDecodersMemoryHarmsOnlyItsOwnRequest() {
    prefiller.cache().fill(5, 1, 2);
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    Asked asked = decoder.pull(at, entry("d1", "t1", -1), entry("d2", "t2", 12));
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    PullResponse answer = asked.answer();
    assertThat(answer.errorRequests()).containsExactly("d1");
    assertThat(answer.okRequests()).containsExactly("d2");
    assertThat(answer.message()).contains("-1");
    assertThat(decoder.cache().holds(5, 12)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p2=SERVED");
    assertThat(prefiller.listener().transferFailures()).hasSize(1);
  }

  @Test
  void theSamePullSentTwiceCountsOnce() {
    RawDecoder first = rig.rawDecoder(0, 2);
    RawDecoder second = rig.rawDecoder(1, 2);
    prefiller.ready("p", "t", 1);
    Asked one = first.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(one.answer().okRequests()).containsExactly("d");
    Asked again = first.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(again.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).as("one of two ranks, twice").isEmpty();
    Asked other = second.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(other.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void allRanksOfADecoderAreServedBeforeBlocksAreFree() {
    prefiller.announce("p", "t");
    RawDecoder[] ranks = {rig.rawDecoder(0, 4), rig.rawDecoder(1, 4), rig.rawDecoder(2, 4)};
    RawDecoder late = rig.rawDecoder(3, 4);
    for (RawDecoder rank : ranks) {
      rank.pull(at, "d", "t", 3);
    }
    rig.settle();
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(prefiller.transfers().underWay()).hasSize(3);
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(prefiller.sent()).isEmpty();
    assertThat(prefiller.producer().leases()).isEqualTo(1);
    // One that needs no blocks counts as served.
    late.pull(at, "d", "t");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void whatWasFetchedIsNotWaitedFor() {
    prefiller.ready("p", "t", 1);
    decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    Asked late = decoder.pull(at, "again", "t", 4);
    rig.settle();
    PullResponse answer = late.answer();
    assertThat(answer.errorRequests()).containsExactly("again");
    assertThat(answer.message()).contains("fetched already");
    assertThat(prefiller.transfers().submitted()).isEqualTo(1);
    assertIdle();
  }

  @Test
  void aPullThatWaitsBehindTheLastOneIsToldThatItWasFetched() {
    Asked first = decoder.pull(at, "d1", "t");
    Asked second = decoder.pull(at, "d2", "t", 4);
    rig.settle();
    prefiller.ready("p", "t", 1);
    rig.settle();
    assertThat(first.answer().okRequests()).containsExactly("d1");
    PullResponse answer = second.answer();
    assertThat(answer.errorRequests()).containsExactly("d2");
    assertThat(answer.message()).contains("fetched already");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void aTransferAskedForTwiceInOnePullIsWrittenToBoth() {
    prefiller.cache().fill(6, 1);
    prefiller.ready("p", "t", 1);
    Asked asked = decoder.pull(at, entry("d1", "t", 3), entry("d2", "t", 4));
    rig.settle();
    prefiller.transfers().only().complete();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d1", "d2");
    assertThat(decoder.cache().holds(6, 3)).isTrue();
    assertThat(decoder.cache().holds(6, 4)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    assertIdle();
  }

  @Test
  void anotherRequestWithALiveTransferIdIsNotSentAndItsBlocksAreGivenBack() {
    prefiller.cache().fill(7, 1);
    prefiller.announce("p1", "t");
    prefiller.announce("p2", "t");
    prefiller.ready("p2", "t", 2);
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p2=RELEASED");
    prefiller.ready("p1", "t", 1);
    decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(decoder.cache().holds(7, 3)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p1=SERVED");
    assertIdle();
  }

  @Test
  void readyToldTwiceIsOneSend() {
    prefiller.ready("p", "t", 1);
    prefiller.ready("p", "t", 1);
    decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
    rig.advanceSeconds(60);
    assertThat(prefiller.sent()).isEmpty();
    assertIdle();
  }

  @Test
  void anIdUsedAgainIsAnotherTransfer() {
    for (int i = 0; i < 3; i++) {
      prefiller.cache().fill(10 + i, 1);
      prefiller.announce("p", "t");
      Asked asked = decoder.pull(at, "d", "t", 3);
      rig.settle();
      prefiller.ready("p", "t", 1);
      rig.settle();
      prefiller.transfers().completeAll();
      rig.settle();
      assertThat(asked.answer().okRequests()).containsExactly("d");
      assertThat(decoder.cache().holds(10 + i, 3)).isTrue();
      assertThat(prefiller.sent()).containsExactly("p=SERVED");
    }
    assertIdle();
  }
}
