package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.config.CapturedLog;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.PullResponse.Status;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Finished blocks are written while their prefill goes on, and the decoder is answered once. */
class ProducerEarlyTest extends EarlyPrefill {

  @Test
  void whatIsFinishedIsWrittenAndTheRestAtTheEnd() {
    begin(1, 3, 5, 7);
    Asked asked = pull(20, 22, 24, 26);
    progress(2, 1, 3, 5, 7);
    complete();
    assertHolds(1, 20);
    assertHolds(3, 22);
    assertThat(asked.answers()).as("answered at the end alone").isEmpty();
    assertThat(prefiller.sent()).isEmpty();
    ready(1, 3, 5, 7);
    assertThat(prefiller.transfers().only().left()).as("two blocks, two layers").isEqualTo(4);
    complete();
    assertServed(asked);
    assertHolds(5, 24);
    assertHolds(7, 26);
    assertThat(prefiller.listener().completedBytes()).as("a write each").hasSize(2);
    assertThat(prefiller.listener().waits()).hasSize(1);
  }

  @Test
  void aPullThatComesLateBeginsWithWhatIsFinished() {
    begin(1, 3, 5, 7);
    progress(3, 1, 3, 5, 7);
    assertThat(prefiller.transfers().pending()).isZero();
    Asked asked = pull(20, 22, 24, 26);
    assertThat(prefiller.transfers().only().left()).isEqualTo(6);
    complete();
    ready(1, 3, 5, 7);
    complete();
    assertServed(asked);
    for (int i = 0; i < 4; i++) {
      assertHolds(1 + 2 * i, 20 + 2 * i);
    }
  }

  @Test
  void aDecoderWithThePrefixGetsTheLastBlocks() {
    begin(1, 3, 5, 7);
    Asked asked = pull(20, 22);
    progress(2, 1, 3, 5, 7);
    assertThat(prefiller.transfers().pending()).as("it has those").isZero();
    progress(3, 1, 3, 5, 7);
    assertThat(prefiller.transfers().only().left()).isEqualTo(2);
    complete();
    assertHolds(5, 20);
    ready(1, 3, 5, 7);
    complete();
    assertServed(asked);
    assertHolds(7, 22);
  }

  @Test
  void twoWritesAtATimeAndWhatIsFinishedMeanwhileIsTheNext() {
    begin(1, 3, 5, 7, 9);
    Asked asked = pull(20, 22, 24, 26, 28);
    progress(1, 1, 3, 5, 7, 9);
    progress(2, 1, 3, 5, 7, 9);
    progress(3, 1, 3, 5, 7, 9);
    progress(4, 1, 3, 5, 7, 9);
    List<ManualTransfers.Transfer> two = prefiller.transfers().underWay();
    assertThat(two).extracting(ManualTransfers.Transfer::left).containsExactly(2, 2);
    // In the order in which it happens to end.
    two.getLast().complete();
    rig.settle();
    assertThat(prefiller.transfers().underWay())
        .extracting(ManualTransfers.Transfer::left)
        .containsExactly(2, 4);
    complete();
    ready(1, 3, 5, 7, 9);
    complete();
    assertServed(asked);
    assertThat(prefiller.transfers().submitted()).isEqualTo(4);
    for (int i = 0; i < 5; i++) {
      assertHolds(1 + 2 * i, 20 + 2 * i);
    }
  }

  @Test
  void whereItBeginsAnewNothingIsWrittenBesideWhatIsUnderWay() {
    begin(1, 3, 5, 7);
    Asked asked = pull(20, 22, 24, 26);
    progress(1, 1, 3, 5, 7);
    progress(2, 1, 3, 5, 7);
    List<ManualTransfers.Transfer> two = prefiller.transfers().underWay();
    assertThat(two).hasSize(2);
    prefiller.cache().fill(100, 2, 4);
    prefiller.progress(new StepPlan.Progress("p", "t", 1, BlockIds.of(2, 4), List.of(4)));
    rig.settle();
    two.getFirst().complete();
    rig.settle();
    assertThat(prefiller.transfers().only()).as("it goes to the same blocks").isEqualTo(two.get(1));
    two.getLast().complete();
    rig.settle();
    assertThat(prefiller.transfers().only().left()).isEqualTo(4);
    complete();
    assertHolds(100, 20);
    assertHolds(100, 22);
    prefiller.cache().fill(101, 6, 8);
    prefiller.ready("p", "t", 2, 4, 6, 8);
    rig.settle();
    assertThat(prefiller.transfers().only().left()).isEqualTo(4);
    complete();
    assertServed(asked);
    assertHolds(100, 20);
    assertHolds(101, 26);
  }

  @Test
  void aPieceThatCostsMoreThanItSavesWaitsForMore() {
    int[] blocks = IntStream.range(0, 32).toArray();
    begin(blocks);
    Asked asked = pull(IntStream.range(32, 64).toArray());
    progress(1, blocks);
    assertThat(prefiller.transfers().pending()).isZero();
    progress(2, blocks);
    assertThat(prefiller.transfers().pending()).isEqualTo(1);
    complete();
    ready(blocks);
    complete();
    assertServed(asked);
    for (int i = 0; i < 32; i++) {
      assertHolds(i, 32 + i);
    }
  }

  @Test
  void theRestWaitsForWhatIsBeingWrittenWhenThePrefillEnds() {
    begin(1, 3, 5, 7);
    Asked asked = pull(20, 22, 24, 26);
    progress(1, 1, 3, 5, 7);
    progress(2, 1, 3, 5, 7);
    ready(1, 3, 5, 7);
    List<ManualTransfers.Transfer> early = prefiller.transfers().underWay();
    assertThat(early)
        .as("the early ones alone")
        .extracting(ManualTransfers.Transfer::left)
        .containsExactly(2, 2);
    early.getFirst().complete();
    rig.settle();
    assertThat(prefiller.transfers().only()).isEqualTo(early.getLast());
    early.getLast().complete();
    rig.settle();
    assertThat(asked.answers()).isEmpty();
    assertThat(prefiller.transfers().only().left()).isEqualTo(4);
    complete();
    assertServed(asked);
    for (int i = 0; i < 4; i++) {
      assertHolds(1 + 2 * i, 20 + 2 * i);
    }
  }

  @Test
  void whereAllIsWrittenTheEndIsAnsweredAtOnce() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    progress(2, 1, 3);
    complete();
    assertThat(asked.answers()).isEmpty();
    ready(1, 3);
    assertServed(asked);
    assertThat(prefiller.transfers().submitted()).isEqualTo(1);
  }

  @Test
  void moreThanThePromptHasIsNotWrittenAndRefusedAtTheEnd() {
    begin(1, 3);
    Asked asked = pull(20, 22, 24);
    progress(1, 1, 3);
    assertThat(prefiller.transfers().pending()).isZero();
    ready(1, 3);
    complete();
    assertFailed(asked, "holds blocks=2");
    prefiller.release("t");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void whereTheEndContradictsTheProgressAllIsWrittenAgainAndToldOnce() {
    try (CapturedLog log = new CapturedLog()) {
      for (int[] end : new int[][] {{1, 9, 5, 7}, {1, 3, 5, 7, 9}}) {
        begin(1, 3, 5, 7);
        Asked asked = pull(20, 22, 24, 26);
        progress(2, 1, 3, 5, 7);
        complete();
        ready(end);
        assertThat(prefiller.transfers().only().left()).as("all four").isEqualTo(8);
        complete();
        assertServed(asked);
        for (int i = 0; i < 4; i++) {
          assertHolds(end[end.length - 4 + i], 20 + 2 * i);
        }
      }
      assertThat(log.lines("WARN"))
          .filteredOn(line -> line.contains("not those of its progress"))
          .hasSize(1);
    }
  }

  @Test
  void aPrefillThatBeganAnewIsWrittenAnew() {
    begin(1, 3, 5, 7);
    Asked asked = pull(20, 22, 24, 26);
    progress(2, 1, 3, 5, 7);
    complete();
    // Preempted: its blocks held another's KV meanwhile, and by chance they are the same again.
    prefiller.cache().fill(UNFINISHED, 1, 3);
    prefiller.progress(
        new StepPlan.Progress("p", "t", 1, BlockIds.ofGroups(new int[] {}), List.of(4)));
    rig.settle();
    assertThat(prefiller.transfers().pending()).isZero();
    prefiller.cache().fill(100, 1);
    prefiller.progress(new StepPlan.Progress("p", "t", 1, BlockIds.of(1), List.of(4)));
    rig.settle();
    complete();
    assertHolds(100, 20);
    prefiller.cache().fill(101, 3, 5, 7);
    prefiller.ready("p", "t", 1, 3, 5, 7);
    rig.settle();
    complete();
    assertServed(asked);
    assertHolds(100, 20);
    assertHolds(101, 22);
  }

  @Test
  void aPrefillThatBeganAnewJustBeforeItsEndIsWrittenAnew() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    progress(1, 1, 3);
    complete();
    prefiller.progress(
        new StepPlan.Progress("p", "t", 1, BlockIds.ofGroups(new int[] {}), List.of(2)));
    prefiller.cache().fill(50, 1, 3);
    prefiller.ready("p", "t", 1, 3);
    rig.settle();
    complete();
    assertServed(asked);
    assertHolds(50, 20);
    assertHolds(50, 22);
  }

  @Test
  void ofTwoRequestsOfAPullEachIsAnsweredWhenItIsDone() {
    begin(1, 3);
    prefiller.cache().fill(40, 40);
    prefiller.ready("p2", "u", 40);
    rig.settle();
    Asked asked =
        decoder.pull(at, RawDecoder.entry("d", "t", 20, 22), RawDecoder.entry("e", "u", 50));
    rig.settle();
    progress(1, 1, 3);
    complete();
    PullResponse first = asked.answer();
    assertThat(first.status()).isEqualTo(Status.CONTINUE);
    assertThat(first.okRequests()).containsExactly("e");
    ready(1, 3);
    complete();
    PullResponse last = asked.answer();
    assertThat(last.status()).isEqualTo(Status.FINISH);
    assertThat(last.okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactlyInAnyOrder("p=SERVED", "p2=SERVED");
    assertHolds(40, 50);
    assertHolds(1, 20);
    assertHolds(3, 22);
  }

  @Test
  void aTransferIsServedWhenEachOfTwoDecoderRanksHasAll() {
    RawDecoder one = rig.rawDecoder(0, 2);
    RawDecoder two = rig.rawDecoder(1, 2);
    begin(1, 3);
    Asked first = one.pull(at, "d", "t", 20, 22);
    rig.settle();
    progress(1, 1, 3);
    Asked second = two.pull(at, "d", "t", 30, 32);
    rig.settle();
    assertThat(prefiller.transfers().pending()).as("a write to each").isEqualTo(2);
    prefiller.transfers().underWay().getFirst().complete();
    rig.settle();
    ready(1, 3);
    prefiller.transfers().underWay().getLast().complete();
    rig.settle();
    assertThat(first.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).as("the other has a block to come").isEmpty();
    complete();
    complete();
    assertThat(second.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }
}
