package dev.mooncake4j.core.scheduler;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What the scheduler side makes of a prefill's progress. */
class SendWhilePrefillSchedulerTest {
  private static final KvRequest REQUEST =
      new KvRequest("r", 70, KvTransferParams.forPrefiller("t"));

  private static MooncakeScheduler scheduler(KvCacheSpec spec, boolean early) {
    return new MooncakeScheduler(
        ConnectorConfig.builder()
            .environment(Map.of())
            .host("h")
            .role(KvRole.PRODUCER)
            .cacheSpec(spec)
            .sendWhilePrefill(early)
            .build());
  }

  private static MooncakeScheduler begun() {
    MooncakeScheduler scheduler = scheduler(KvCacheSpec.fullAttention(16), true);
    scheduler.onBlocksAllocated(REQUEST, BlockIds.none(), 0);
    assertThat(scheduler.buildStep().announcements()).hasSize(1);
    return scheduler;
  }

  private static StepPlan.Progress progress(int restarts, int total, int... finished) {
    return new StepPlan.Progress("r", "t", restarts, BlockIds.of(finished), List.of(total));
  }

  private static void report(MooncakeScheduler scheduler) {
    scheduler.onStepResult(
        new StepResult(
            List.of(new StepResult.Sent("r", "t", StepResult.SendEnd.RELEASED)),
            List.of(),
            List.of(),
            List.of()));
  }

  @Test
  void withoutTheOptionNothingIsToldAndAnAbortFreesAtOnce() {
    MooncakeScheduler scheduler = scheduler(KvCacheSpec.fullAttention(16), false);
    scheduler.onBlocksAllocated(REQUEST, BlockIds.none(), 0);
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(1, 2), 32);
    assertThat(scheduler.buildStep().progress()).isEmpty();
    assertThat(scheduler.onRequestFinished(REQUEST, BlockIds.of(1, 2), FinishReason.ABORTED))
        .isEqualTo(FinishDecision.FREE_NOW);
    scheduler.buildStep();
    assertThat(scheduler.size()).isZero();
  }

  @Test
  void onlyWholeBlocksAreFinishedAndTheTotalIsThatOfThePrompt() {
    MooncakeScheduler scheduler = begun();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7), 15);
    assertThat(scheduler.buildStep().isEmpty()).isTrue();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8, 9), 47);
    assertThat(scheduler.buildStep().progress()).containsExactly(progress(0, 5, 7, 8));
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8, 9), 47);
    assertThat(scheduler.buildStep().isEmpty()).as("nothing new").isTrue();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8, 9, 10, 11), 70);
    assertThat(scheduler.buildStep().progress())
        .as("the last block is full in part, and goes with the end")
        .containsExactly(progress(0, 5, 7, 8, 9, 10));
  }

  @Test
  void aPrefillThatWasNotAnnouncedIsAnnouncedByItsProgress() {
    MooncakeScheduler scheduler = scheduler(KvCacheSpec.fullAttention(16), true);
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8), 32);
    StepPlan plan = scheduler.buildStep();
    assertThat(plan.announcements()).hasSize(1);
    assertThat(plan.progress()).containsExactly(progress(0, 5, 7, 8));
  }

  @Test
  void aPrefillThatBeginsAnewIsToldAsSuchAlsoWithinAStep() {
    MooncakeScheduler scheduler = begun();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8), 32);
    assertThat(scheduler.buildStep().progress()).containsExactly(progress(0, 5, 7, 8));
    scheduler.onPrefillProgress(REQUEST, BlockIds.none(), 0);
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8, 9), 48);
    assertThat(scheduler.buildStep().progress()).containsExactly(progress(1, 5, 7, 8, 9));
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 3, 9), 48);
    assertThat(scheduler.buildStep().progress()).containsExactly(progress(2, 5, 7, 3, 9));
  }

  @Test
  void aServerThatHoldsMoreBlocksThanThePromptNeedsIsBelieved() {
    MooncakeScheduler scheduler = begun();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(1, 2, 3, 4, 5, 6), 16);
    assertThat(scheduler.buildStep().progress()).containsExactly(progress(0, 6, 1));
  }

  @Test
  void groupsThatChangeUntilTheEndGoLast() {
    KvCacheSpec spec =
        new KvCacheSpec(
            List.of(
                KvCacheGroup.slidingWindow(16, 32),
                KvCacheGroup.fullAttention(32),
                KvCacheGroup.mamba(16)),
            0,
            false,
            1);
    MooncakeScheduler scheduler = scheduler(spec, true);
    KvRequest request = new KvRequest("r", 65, KvTransferParams.forPrefiller("t"));
    scheduler.onPrefillProgress(
        request, BlockIds.ofGroups(new int[] {1, 2, 3}, new int[] {4, 5}, new int[] {6}), 40);
    assertThat(scheduler.buildStep().progress())
        .as("of 64 tokens: the last of the prompt is dropped")
        .containsExactly(
            new StepPlan.Progress(
                "r",
                "t",
                0,
                BlockIds.ofGroups(new int[] {}, new int[] {4}, new int[] {}),
                List.of(0, 2, 0)));
  }

  @Test
  void numbersThatCannotBeAreRefusedAndChangeNothing() {
    MooncakeScheduler scheduler = begun();
    assertThatThrownBy(() -> scheduler.onPrefillProgress(REQUEST, BlockIds.of(1), -1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("finished_tokens=-1");
    assertThatThrownBy(() -> scheduler.onPrefillProgress(REQUEST, BlockIds.of(1), 71))
        .hasMessageContaining("finished_tokens=71")
        .hasMessageContaining("prompt_tokens=70");
    assertThatThrownBy(() -> scheduler.onPrefillProgress(REQUEST, BlockIds.of(1), 32))
        .hasMessageContaining("blocks=2")
        .hasMessageContaining("blocks=1");
    assertThatThrownBy(
            () ->
                scheduler.onPrefillProgress(
                    REQUEST, BlockIds.ofGroups(new int[] {1}, new int[] {2}), 16))
        .hasMessageContaining("block_groups=2");
    assertThat(scheduler.buildStep().isEmpty()).isTrue();
  }

  @Test
  void anAbortBeforeTheProgressWasHandedOverFreesAtOnce() {
    MooncakeScheduler scheduler = begun();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8), 32);
    assertThat(scheduler.onRequestFinished(REQUEST, BlockIds.of(7, 8), FinishReason.ABORTED))
        .isEqualTo(FinishDecision.FREE_NOW);
    StepPlan plan = scheduler.buildStep();
    assertThat(plan.progress()).isEmpty();
    assertThat(plan.cancelledSends()).singleElement().matches(c -> !c.blocksKept());
    assertThat(scheduler.size()).isZero();
  }

  @Test
  void anAbortAfterItKeepsTheBlocksUntilTheWorkersSaySo() {
    for (FinishReason reason : List.of(FinishReason.ABORTED, FinishReason.ERROR)) {
      MooncakeScheduler scheduler = begun();
      scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8), 32);
      scheduler.buildStep();
      assertThat(scheduler.onRequestFinished(REQUEST, BlockIds.of(7, 8), reason))
          .isEqualTo(FinishDecision.KEEP);
      assertThat(scheduler.onRequestFinished(REQUEST, BlockIds.of(7, 8), reason))
          .as("told twice")
          .isEqualTo(FinishDecision.KEEP);
      assertThat(scheduler.buildStep().cancelledSends())
          .singleElement()
          .matches(StepPlan.CancelledSend::blocksKept);
      assertThat(scheduler.size()).isPositive();
      report(scheduler);
      assertThat(scheduler.size()).isZero();
    }
  }

  @Test
  void aPrefillThatEndsIsReadyWithWhatWasLeftToTell() {
    MooncakeScheduler scheduler = begun();
    scheduler.onPrefillProgress(REQUEST, BlockIds.of(7, 8), 32);
    scheduler.buildStep();
    scheduler.onPrefillProgress(REQUEST, BlockIds.none(), 0);
    BlockIds all = BlockIds.of(7, 8, 9, 10, 11);
    assertThat(scheduler.onRequestFinished(REQUEST, all, FinishReason.LENGTH))
        .isEqualTo(FinishDecision.KEEP);
    StepPlan plan = scheduler.buildStep();
    assertThat(plan.ready()).hasSize(1);
    assertThat(plan.progress())
        .as("that it began anew must be known")
        .containsExactly(
            new StepPlan.Progress("r", "t", 1, BlockIds.ofGroups(new int[] {}), List.of(5)));
    scheduler.onPrefillProgress(REQUEST, all, 70);
    assertThat(scheduler.buildStep().isEmpty()).isTrue();
    report(scheduler);
    assertThat(scheduler.size()).isZero();
  }

  @Test
  void whatIsNoPrefillForAnotherIsLeftAlone() {
    MooncakeScheduler scheduler = scheduler(KvCacheSpec.fullAttention(16), true);
    KvRequest plain = new KvRequest("r", 70, new KvTransferParams(false, false, null, null, null));
    scheduler.onPrefillProgress(plain, BlockIds.of(1), 9_999);
    assertThat(scheduler.size()).isZero();
  }
}
