package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A prefill that goes on, and our own decoder: what each is told, and which bytes arrive. */
class EarlyBothSidesTest {
  private CoreRig rig = CoreRig.single();
  private RigPrefiller prefiller = rig.prefiller();
  private RigDecoder decoder = rig.decoder();

  private void use(RigOptions options) {
    rig.close();
    rig = new CoreRig(options);
    prefiller = rig.prefiller();
    decoder = rig.decoder();
  }

  @AfterEach
  void nothingIsLeft() {
    assertThat(prefiller.producer().sends()).isZero();
    assertThat(prefiller.transfers().pending()).isZero();
    assertThat(decoder.consumer().pulls()).isZero();
    assertThat(decoder.consumer().quarantinedBlocks()).isZero();
    assertThat(prefiller.loop().failedEvents()).isZero();
    assertThat(decoder.loop().failedEvents()).isZero();
    rig.close();
  }

  /** Blocks 1, 3 and 5, of which the first two are finished; they go to 20, 22 and 24. */
  private void twoOfThreeAreFinished() {
    prefiller.announce("p", "t");
    decoder.pull("d", "t", 20, 22, 24);
    prefiller.cache().fill(7, 1, 3);
    prefiller.progress("p", "t", 3, 1, 3);
    rig.settle();
  }

  private void end() {
    prefiller.cache().fill(7, 5);
    prefiller.ready("p", "t", 1, 3, 5);
    rig.settle();
  }

  private void complete() {
    prefiller.transfers().completeAll();
    rig.settle();
  }

  // The decoder gives up, or is told.

  @Test
  void aDecoderThatGivesUpDuringAnEarlyWriteHasItsBlocksWhenThatIsOver() {
    twoOfThreeAreFinished();
    decoder.cancel("d");
    rig.settle();
    assertThat(decoder.ends()).as("a write may still come").isEmpty();
    complete();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
    end();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    assertThat(prefiller.transfers().submitted()).as("nothing for nobody").isEqualTo(1);
  }

  @Test
  void aPrefillThatIsAbortedAfterBlocksWereWrittenFailsWithAllBlocksAndQuiet() {
    twoOfThreeAreFinished();
    complete();
    prefiller.giveUp("p", "t", "the prefill was aborted");
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.reason()).contains("the prefill was aborted");
    assertThat(failure.blocks()).isEqualTo(BlockIds.of(20, 22, 24));
    assertThat(failure.quiet()).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  @Test
  void anEarlyWriteThatFailsFailsTheRequestAtTheTransfer() {
    twoOfThreeAreFinished();
    prefiller.transfers().only().write(1);
    prefiller.transfers().only().fail("made to fail");
    rig.settle();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.reason()).contains("made to fail");
    assertThat(failure.blocks()).isEqualTo(BlockIds.of(20, 22, 24));
    assertThat(failure.quiet()).isTrue();
    prefiller.giveUp("p", "t", "nobody wants it");
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
  }

  // Blocks that change.

  @Test
  void groupsThatChangeUntilTheEndArriveAsTheyAreThen() {
    use(
        RigOptions.defaults()
            .withGroups(KvCacheGroup.fullAttention(16), KvCacheGroup.slidingWindow(16, 32)));
    prefiller.announce("p", "t");
    decoder.pull(
        new StepPlan.Pull(
            "d",
            "t",
            CoreRig.ENGINE_ID,
            CoreRig.BOOTSTRAP,
            BlockIds.ofGroups(new int[] {20, 22, 24}, new int[] {30, 32})));
    prefiller.cache().fill(7, 1, 3);
    prefiller.cache().fill(-1, 11, 13);
    prefiller.progress(
        new StepPlan.Progress(
            "p", "t", 0, BlockIds.ofGroups(new int[] {1, 3}, new int[] {}), List.of(3, 0)));
    rig.settle();
    complete();
    assertThat(decoder.cache().holds(7, 20, 0)).isTrue();
    assertThat(decoder.cache().holds(7, 22, 0)).isTrue();
    assertThat(decoder.cache().holds(-1, 30, 1)).as("of the window nothing yet").isFalse();
    prefiller.cache().fill(7, 5, 11, 13);
    prefiller.ready(
        new StepPlan.Ready("p", "t", BlockIds.ofGroups(new int[] {1, 3, 5}, new int[] {11, 13})));
    rig.settle();
    assertThat(prefiller.transfers().only().left()).as("one block, and the window").isEqualTo(3);
    complete();
    assertThat(decoder.ends()).containsExactly("d");
    for (int block : new int[] {20, 22, 24}) {
      assertThat(decoder.cache().holds(7, block, 0)).isTrue();
    }
    for (int block : new int[] {30, 32}) {
      assertThat(decoder.cache().holds(7, block, 1)).isTrue();
    }
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  /** What the server has promised not to do; nobody can see that it has. */
  @Test
  void aFinishedBlockThatIsOverwrittenAfterItsWriteArrivesAsItWas() {
    twoOfThreeAreFinished();
    complete();
    prefiller.cache().fill(8, 1);
    end();
    complete();
    assertThat(decoder.ends()).containsExactly("d");
    assertThat(decoder.cache().holds(7, 20)).as("what was told as finished").isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  // With integrity_check on the decoder.

  @ParameterizedTest
  @ValueSource(ints = {1, 3, 5})
  void theDigestCoversWhatWasToldAsFinishedToo(int changed) {
    use(RigOptions.defaults().withIntegrityCheck(true));
    twoOfThreeAreFinished();
    assertThat(prefiller.transfers().pending()).as("nothing is written early").isZero();
    end();
    assertThat(prefiller.transfers().only().left()).as("three blocks, two layers").isEqualTo(6);
    prefiller.cache().fill(8, changed);
    complete();
    assertThat(decoder.onlyFailure().stage()).isEqualTo(FailureStage.INTEGRITY);
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void withADigestWhatWasToldAsFinishedArrivesAsItIsAtTheEnd() {
    use(RigOptions.defaults().withIntegrityCheck(true));
    twoOfThreeAreFinished();
    prefiller.cache().fill(8, 1);
    end();
    complete();
    assertThat(decoder.ends())
        .as("overwritten before it is read: no digest can tell")
        .contains("d");
    assertThat(decoder.cache().holds(8, 20)).isTrue();
    assertThat(decoder.cache().holds(7, 22)).isTrue();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @ParameterizedTest
  @ValueSource(ints = {20, 24})
  void withADigestWhatIsOverwrittenAtTheDecoderIsFound(int changed) {
    use(RigOptions.defaults().withIntegrityCheck(true));
    twoOfThreeAreFinished();
    end();
    decoder.holdReads();
    complete();
    decoder.cache().fill(9, changed);
    decoder.read();
    rig.settle();
    assertThat(decoder.onlyFailure().stage()).isEqualTo(FailureStage.INTEGRITY);
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }
}
