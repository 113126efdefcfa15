package dev.mooncake4j.core.scheduler;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.TraceContext;
import dev.mooncake4j.core.config.CapturedLog;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class MooncakeSchedulerTest {
  private static final String ADDRESS = "http://10.0.0.1:8998";
  private static final KvCacheSpec FULL = KvCacheSpec.fullAttention(16);
  private static final KvCacheSpec MAMBA =
      new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16), KvCacheGroup.mamba(16)), 0, false, 1);
  // A window of 40 tokens in blocks of 16: three blocks and one for the overlap.
  private static final KvCacheSpec WINDOW =
      new KvCacheSpec(
          List.of(KvCacheGroup.fullAttention(16), KvCacheGroup.slidingWindow(16, 40)), 0, false, 1);

  private static final KvRequest PULL =
      new KvRequest("d1", 100, KvTransferParams.forDecoder("t1", "engine-p", ADDRESS));
  private static final KvRequest SEND =
      new KvRequest("p1", 100, KvTransferParams.forPrefiller("t1"));
  private static final KvRequest PLAIN =
      new KvRequest("x1", 100, new KvTransferParams(false, false, null, null, null));

  private final MooncakeScheduler decoder = scheduler(KvRole.CONSUMER, FULL, null);
  private final MooncakeScheduler prefiller = scheduler(KvRole.PRODUCER, FULL, null);

  // ---- both

  @ParameterizedTest
  @ValueSource(strings = {"t\nERROR forged", "t\u001b[31m", "t\u2028", "\ud800", "\udc00x", "LONG"})
  void textsThatMayNotStandInALogLineOrOnTheWireAreRefused(String text) {
    String odd = text.equals("LONG") ? "x".repeat(1025) : text;
    for (KvTransferParams params :
        List.of(
            KvTransferParams.forDecoder(odd, "e", ADDRESS),
            KvTransferParams.forDecoder("t", odd, ADDRESS),
            KvTransferParams.forDecoder("t", "e", odd))) {
      KvRequest request = new KvRequest("d", 16, params);
      assertThat(decoder.matchedTokens(request, 0)).isEqualTo(MatchedTokens.NONE);
      decoder.onRequestFinished(request, BlockIds.none(), FinishReason.LENGTH);
    }
    prefiller.onBlocksAllocated(
        new KvRequest("p", 16, KvTransferParams.forPrefiller(odd)), BlockIds.none(), 0);
    assertThat(prefiller.buildStep().isEmpty()).isTrue();
    assertThat(decoder.buildStep().isEmpty()).isTrue();
    KvRequest fine =
        new KvRequest("d", 16, KvTransferParams.forDecoder("\ud83d\ude00", "e", ADDRESS));
    assertThat(decoder.matchedTokens(fine, 0).tokens()).isEqualTo(16);
  }

  @Test
  void blocksThatAllTravelAreNotCopied() {
    BlockIds blocks = BlockIds.of(3, 4, 5);
    assertThat(decoder.matchedTokens(PULL, 0).tokens()).isEqualTo(100);
    decoder.onBlocksAllocated(PULL, blocks, 100);
    assertThat(decoder.buildStep().pulls().getFirst().blocks()).isSameAs(blocks);
  }

  @Test
  void theTraceOfARequestGoesToTheWorkersAndOneThatIsNoneIsLeftOut() {
    String header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    TraceContext trace = TraceContext.parse(header);
    assertThat(trace).isNotNull();
    String[] headers = {header, "00-not-one-01", null};
    TraceContext[] traces = {trace, null, null};
    for (int i = 0; i < headers.length; i++) {
      KvRequest pull =
          new KvRequest(
              "d" + i,
              16,
              KvTransferParams.forDecoder("t" + i, "e", ADDRESS).withTraceparent(headers[i]));
      decoder.onBlocksAllocated(pull, BlockIds.of(7), 16);
      assertThat(decoder.buildStep().pulls())
          .containsExactly(
              new StepPlan.Pull("d" + i, "t" + i, "e", ADDRESS, BlockIds.of(7), traces[i]));
      KvRequest send =
          new KvRequest(
              "p" + i, 16, KvTransferParams.forPrefiller("t" + i).withTraceparent(headers[i]));
      prefiller.onBlocksAllocated(send, BlockIds.none(), 0);
      assertThat(prefiller.buildStep().announcements())
          .containsExactly(new StepPlan.Announcement("p" + i, "t" + i, traces[i]));
    }
  }

  // ---- decoder

  @Test
  void aDecoderFetchesOnceAndIsForgottenAfterTheEnd() {
    assertThat(decoder.onRequestArrived(PULL)).isEqualTo(100);
    assertThat(decoder.matchedTokens(PULL, 32)).isEqualTo(new MatchedTokens(68, true));
    assertThat(decoder.matchedTokens(PULL, 32)).isEqualTo(new MatchedTokens(68, true));
    decoder.onBlocksAllocated(PULL, BlockIds.of(7, 8, 9), 68);

    StepPlan step = decoder.buildStep();
    assertThat(step.pulls())
        .containsExactly(new StepPlan.Pull("d1", "t1", "engine-p", ADDRESS, BlockIds.of(7, 8, 9)));
    assertThat(step.arrivals()).isEmpty();
    assertThat(step.announcements()).isEmpty();
    assertThat(decoder.buildStep()).isSameAs(StepPlan.empty());

    // Preempted and scheduled again, before and after the result: never a second pull.
    assertThat(decoder.matchedTokens(PULL, 0)).isEqualTo(MatchedTokens.NONE);
    decoder.onBlocksAllocated(PULL, BlockIds.of(1), 16);
    decoder.onStepResult(received("d1"));
    assertThat(decoder.matchedTokens(PULL, 0)).isEqualTo(MatchedTokens.NONE);
    decoder.onBlocksAllocated(PULL, BlockIds.of(1), 16);
    assertThat(decoder.buildStep().isEmpty()).isTrue();

    assertThat(finish(decoder, PULL, FinishReason.STOP, 7, 8, 9)).isFalse();
    assertForgotten(decoder);
  }

  @Test
  void everythingCachedOnlyReleases() {
    decoder.onRequestArrived(PULL);
    assertThat(decoder.matchedTokens(PULL, 100)).isEqualTo(MatchedTokens.NONE);
    try (CapturedLog log = new CapturedLog()) {
      decoder.onBlocksAllocated(PULL, BlockIds.of(7, 8), 0);
      assertThat(log.lines("WARN")).isEmpty();
    }

    assertThat(decoder.buildStep().pulls())
        .containsExactly(new StepPlan.Pull("d1", "t1", "engine-p", ADDRESS, BlockIds.none()));
    // Nothing is reported of it, so nothing is waited for.
    assertThat(finish(decoder, PULL, FinishReason.LENGTH, 7, 8)).isFalse();
    assertForgotten(decoder);
  }

  @Test
  void tokensWithoutBlocksOnlyReleaseAndWarn() {
    try (CapturedLog log = new CapturedLog()) {
      decoder.onBlocksAllocated(PULL, BlockIds.ofGroups(new int[0]), 16);
      decoder.onBlocksAllocated(PULL, BlockIds.ofGroups(new int[0]), 16);

      assertThat(decoder.buildStep().pulls())
          .singleElement()
          .satisfies(pull -> assertThat(pull.blocks()).isEqualTo(BlockIds.none()));
      assertThat(log.lines("WARN")).singleElement().asString().contains("no blocks to fill");
    }
  }

  @Test
  void givenUpBeforeItsBlocksItReleasesThePrefillers() {
    decoder.onRequestArrived(PULL);
    decoder.matchedTokens(PULL, 0);

    assertThat(finish(decoder, PULL, FinishReason.ABORTED)).isFalse();
    assertThat(decoder.buildStep().pulls())
        .containsExactly(new StepPlan.Pull("d1", "t1", "engine-p", ADDRESS, BlockIds.none()));
    assertForgotten(decoder);
  }

  @Test
  void givenUpBeforeAnyOtherCallItReleasesThePrefillers() {
    assertThat(finish(decoder, PULL, FinishReason.ABORTED)).isFalse();
    assertThat(decoder.buildStep().pulls())
        .singleElement()
        .satisfies(pull -> assertThat(pull.blocks()).isEqualTo(BlockIds.none()));
    assertForgotten(decoder);
  }

  @Test
  void givenUpBetweenAllocationAndStepItsBlocksNeverLeave() {
    decoder.onRequestArrived(PULL);
    decoder.onBlocksAllocated(PULL, BlockIds.of(7, 8), 32);

    assertThat(finish(decoder, PULL, FinishReason.ABORTED, 7, 8)).isFalse();
    assertThat(decoder.buildStep().pulls())
        .containsExactly(new StepPlan.Pull("d1", "t1", "engine-p", ADDRESS, BlockIds.none()));
    assertForgotten(decoder);
  }

  @Test
  void givenUpWhileItsPullIsUnderWayItsBlocksAreKeptUntilReported() {
    pulling(decoder);

    assertThat(finish(decoder, PULL, FinishReason.ABORTED, 7, 8)).isTrue();
    assertThat(finish(decoder, PULL, FinishReason.ABORTED, 7, 8)).as("told twice").isTrue();
    StepPlan step = decoder.buildStep();
    assertThat(step.cancelledPulls()).containsExactly("d1");
    assertThat(step.pulls()).isEmpty();
    assertThat(decoder.buildStep().isEmpty()).isTrue();

    decoder.onStepResult(failed("d1", "t1"));
    assertForgotten(decoder);
  }

  @Test
  void aReportThatOvertakesTheCancellationTakesItBack() {
    pulling(decoder);
    assertThat(finish(decoder, PULL, FinishReason.ABORTED, 7, 8)).isTrue();

    decoder.onStepResult(received("d1"));

    assertThat(decoder.buildStep().cancelledPulls()).isEmpty();
    assertForgotten(decoder);
  }

  @Test
  void aFailedLoadIsNotTriedAgain() {
    pulling(decoder);
    decoder.onStepResult(failed("d1", "t1"));

    assertThat(decoder.matchedTokens(PULL, 0)).isEqualTo(MatchedTokens.NONE);
    assertThat(finish(decoder, PULL, FinishReason.ERROR, 7, 8)).isFalse();
    assertForgotten(decoder);
  }

  @Test
  void reportsOfOthersChangeNothing() {
    pulling(decoder);

    decoder.onStepResult(failed("d1", "another transfer"));
    decoder.onStepResult(received("unknown"));
    decoder.onStepResult(failed("unknown", "t1"));
    decoder.onStepResult(sent("d1", "t1"));

    assertThat(finish(decoder, PULL, FinishReason.ABORTED, 7, 8)).isTrue();
    decoder.onStepResult(received("d1"));
    decoder.onStepResult(received("d1"));
    assertForgotten(decoder);
  }

  @Test
  void aModelWithAStateLoadsAllButTheLastToken() {
    MooncakeScheduler scheduler = scheduler(KvRole.CONSUMER, MAMBA, null);

    assertThat(scheduler.onRequestArrived(PULL)).isEqualTo(100);
    assertThat(scheduler.matchedTokens(PULL, 0)).isEqualTo(new MatchedTokens(99, true));
    assertThat(scheduler.matchedTokens(PULL, 99)).isEqualTo(MatchedTokens.NONE);
    KvRequest one = new KvRequest("d2", 1, KvTransferParams.forDecoder("t2", "e", ADDRESS));
    assertThat(scheduler.matchedTokens(one, 0)).isEqualTo(new MatchedTokens(1, true));
  }

  @Test
  void aDecoderAsksForTheLastBlocksOfAWindow() {
    MooncakeScheduler scheduler = scheduler(KvRole.CONSUMER, WINDOW, null);
    scheduler.onBlocksAllocated(
        PULL, BlockIds.ofGroups(new int[] {1, 2, 3, 4, 5, 6}, new int[] {1, 2, 3, 4, 5, 6}), 96);

    assertThat(scheduler.buildStep().pulls().getFirst().blocks())
        .isEqualTo(BlockIds.ofGroups(new int[] {1, 2, 3, 4, 5, 6}, new int[] {3, 4, 5, 6}));
  }

  @Test
  void leasesBeginWithTheArrivalAndEveryArrivalIsFollowedByAPull() {
    MooncakeScheduler scheduler = scheduler(KvRole.CONSUMER, FULL, Duration.ofSeconds(30));
    scheduler.onRequestArrived(PULL);

    assertThat(scheduler.buildStep().arrivals())
        .containsExactly(new StepPlan.Arrival("d1", "t1", "engine-p", ADDRESS));
    scheduler.matchedTokens(PULL, 0);
    assertThat(scheduler.buildStep().isEmpty()).isTrue();

    finish(scheduler, PULL, FinishReason.ABORTED);
    assertThat(scheduler.buildStep().pulls()).hasSize(1);
    assertForgotten(scheduler);
  }

  @Test
  void anArrivalThatEndsBeforeTheStepIsNotToldOf() {
    MooncakeScheduler scheduler = scheduler(KvRole.BOTH, FULL, Duration.ofSeconds(30));
    scheduler.onRequestArrived(PULL);
    finish(scheduler, PULL, FinishReason.ABORTED);

    StepPlan step = scheduler.buildStep();
    assertThat(step.arrivals()).isEmpty();
    assertThat(step.pulls()).hasSize(1);
    assertForgotten(scheduler);
  }

  @Test
  void aPrefillerRenewsNothing() {
    MooncakeScheduler scheduler = scheduler(KvRole.PRODUCER, FULL, Duration.ofSeconds(30));
    scheduler.onRequestArrived(SEND);

    assertThat(scheduler.buildStep().isEmpty()).isTrue();
  }

  // ---- prefiller

  @ParameterizedTest
  @EnumSource(
      value = FinishReason.class,
      names = {"LENGTH", "STOP"})
  void aPrefillerAnnouncesKeepsAndIsToldWhenItsBlocksAreFree(FinishReason reason) {
    assertThat(prefiller.onRequestArrived(SEND)).isEqualTo(100);
    assertThat(prefiller.matchedTokens(SEND, 0)).isEqualTo(MatchedTokens.NONE);
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    assertThat(prefiller.buildStep().announcements())
        .containsExactly(new StepPlan.Announcement("p1", "t1"));
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    assertThat(prefiller.buildStep().isEmpty()).isTrue();

    assertThat(finish(prefiller, SEND, reason, 4, 5)).isTrue();
    StepPlan step = prefiller.buildStep();
    assertThat(step.ready()).containsExactly(new StepPlan.Ready("p1", "t1", BlockIds.of(4, 5)));
    assertThat(step.announcements()).isEmpty();
    assertThat(step.cancelledSends()).isEmpty();
    assertThat(finish(prefiller, SEND, reason, 4, 5)).as("told twice").isTrue();
    assertThat(prefiller.buildStep().isEmpty()).isTrue();

    prefiller.onStepResult(sent("p1", "t1"));
    assertForgotten(prefiller);
  }

  @Test
  void aPrefillThatEndsWithinOneStepIsAnnouncedAndReady() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    finish(prefiller, SEND, FinishReason.LENGTH, 4);

    StepPlan step = prefiller.buildStep();
    assertThat(step.announcements()).hasSize(1);
    assertThat(step.ready()).hasSize(1);
  }

  /** All of its prompt was cached, so no blocks were allocated for it. */
  @Test
  void aPrefillThatEndsWithoutAnAllocationIsAnnouncedAllTheSame() {
    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 4)).isTrue();

    StepPlan step = prefiller.buildStep();
    assertThat(step.announcements()).containsExactly(new StepPlan.Announcement("p1", "t1"));
    assertThat(step.ready()).hasSize(1);
  }

  @ParameterizedTest
  @EnumSource(
      value = FinishReason.class,
      names = {"ABORTED", "ERROR"})
  void aPrefillThatIsGivenUpIsCancelledAndFree(FinishReason reason) {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    prefiller.buildStep();

    assertThat(finish(prefiller, SEND, reason, 4, 5)).isFalse();
    StepPlan step = prefiller.buildStep();
    assertThat(step.ready()).isEmpty();
    assertThat(step.cancelledSends())
        .singleElement()
        .satisfies(
            cancelled -> {
              assertThat(cancelled.requestId()).isEqualTo("p1");
              assertThat(cancelled.transferId()).isEqualTo("t1");
              assertThat(cancelled.reason()).contains("prefill");
            });
    assertForgotten(prefiller);
  }

  @Test
  void givenUpBeforeItsPrefillBeganTheDecoderIsToldAllTheSame() {
    assertThat(finish(prefiller, SEND, FinishReason.ABORTED)).isFalse();
    StepPlan step = prefiller.buildStep();
    assertThat(step.cancelledSends()).hasSize(1);
    assertThat(step.announcements()).isEmpty();
    assertForgotten(prefiller);
  }

  @Test
  void aPrefillWithoutBlocksIsCancelled() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);

    assertThat(finish(prefiller, SEND, FinishReason.LENGTH)).isFalse();
    StepPlan step = prefiller.buildStep();
    assertThat(step.cancelledSends()).singleElement().asString().contains("without blocks");
    assertThat(step.announcements()).isEmpty();
    assertForgotten(prefiller);
  }

  @Test
  void aPrefillSentAgainBeforeItsCancellationHasGoneOutIsRefused() {
    finish(prefiller, SEND, FinishReason.ABORTED);
    prefiller.onRequestArrived(SEND);
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);

    StepPlan step = prefiller.buildStep();
    assertThat(step.announcements()).isEmpty();
    assertThat(step.cancelledSends()).hasSize(1);
    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 4)).isFalse();
    assertForgotten(prefiller);

    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    assertThat(prefiller.buildStep().announcements()).hasSize(1);
  }

  @Test
  void aTransferLetGoDuringThePrefillKeepsNothing() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    prefiller.buildStep();
    prefiller.onStepResult(sent("p1", "t1"));

    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 4, 5)).isFalse();
    StepPlan step = prefiller.buildStep();
    assertThat(step.ready()).isEmpty();
    assertThat(step.cancelledSends()).singleElement().asString().contains("let go");
    assertForgotten(prefiller);
  }

  @Test
  void aReportBeforeTheStepThatHandsTheBlocksOverFreesThem() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    prefiller.buildStep();
    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 4, 5)).isTrue();

    prefiller.onStepResult(sent("p1", "t1"));

    // The server frees the blocks at this report, so they must not be offered any more; a decoder
    // that asks for them is told.
    StepPlan step = prefiller.buildStep();
    assertThat(step.ready()).isEmpty();
    assertThat(step.cancelledSends())
        .singleElement()
        .satisfies(cancelled -> assertThat(cancelled.transferId()).isEqualTo("t1"));
    assertForgotten(prefiller);
  }

  @Test
  void aLateReportOfAnEarlierRequestOfTheSameIdsChangesNothing() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    prefiller.onStepResult(sent("p1", "t1"));
    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 4, 5)).isTrue();
    prefiller.onStepResult(sent("p1", "t1"));

    StepPlan step = prefiller.buildStep();
    assertThat(step.announcements()).hasSize(1);
    assertThat(step.ready()).hasSize(1);
    prefiller.onStepResult(sent("p1", "t1"));
    assertForgotten(prefiller);
  }

  @Test
  void aWindowSendsItsLastBlocksOnly() {
    MooncakeScheduler scheduler = scheduler(KvRole.BOTH, WINDOW, null);
    FinishDecision decision =
        scheduler.onRequestFinished(
            SEND,
            BlockIds.ofGroups(new int[] {1, 2, 3, 4, 5, 6}, new int[] {9, 8, 7, 6, 5, 4}),
            FinishReason.LENGTH);

    assertThat(decision.keepBlocks()).isTrue();
    assertThat(scheduler.buildStep().ready().getFirst().blocks())
        .isEqualTo(BlockIds.ofGroups(new int[] {1, 2, 3, 4, 5, 6}, new int[] {7, 6, 5, 4}));
  }

  @Test
  void aPrefillerOfAModelWithAStateDropsTheLastToken() {
    MooncakeScheduler scheduler = scheduler(KvRole.PRODUCER, MAMBA, null);

    assertThat(scheduler.onRequestArrived(SEND)).isEqualTo(99);
    assertThat(scheduler.onRequestArrived(PLAIN)).isEqualTo(100);
    KvRequest one = new KvRequest("p2", 1, KvTransferParams.forPrefiller("t2"));
    assertThat(scheduler.onRequestArrived(one)).isEqualTo(1);
    KvRequest unfit = new KvRequest("p3", 100, KvTransferParams.forPrefiller(""));
    assertThat(scheduler.onRequestArrived(unfit)).isEqualTo(100);
  }

  // ---- what is refused

  @Test
  void aRequestThatAsksForNothingLeavesNoTrace() {
    for (KvRole role : KvRole.values()) {
      MooncakeScheduler scheduler = scheduler(role, FULL, Duration.ofSeconds(30));
      assertNoTransfer(scheduler, PLAIN);
      KvRequest named =
          new KvRequest("x2", 9, new KvTransferParams(false, false, "t", "e", ADDRESS));
      assertNoTransfer(scheduler, named);
    }
  }

  @Test
  void missingParametersWarnOnceByName() {
    KvTransferParams[] lacking = {
      new KvTransferParams(false, true, null, "e", ADDRESS),
      new KvTransferParams(false, true, "t", "", ADDRESS),
      new KvTransferParams(false, true, "t", "e", null),
      new KvTransferParams(false, true, null, null, null),
      new KvTransferParams(true, false, null, null, null),
      new KvTransferParams(true, false, "", null, null),
    };
    String[] names = {
      "[transfer_id]",
      "[remote_engine_id]",
      "[remote_bootstrap_addr]",
      "[transfer_id, remote_engine_id, remote_bootstrap_addr]",
      "[transfer_id]",
      "[transfer_id]",
    };
    MooncakeScheduler scheduler = scheduler(KvRole.BOTH, FULL, Duration.ofSeconds(30));
    for (int i = 0; i < lacking.length; i++) {
      try (CapturedLog log = new CapturedLog()) {
        assertNoTransfer(scheduler, new KvRequest("r" + i, 50, lacking[i]));
        assertThat(log.lines("WARN")).singleElement().asString().contains(names[i]);
      }
    }
  }

  @Test
  void aRoleDoesNotDoTheOthersWork() {
    try (CapturedLog log = new CapturedLog()) {
      assertNoTransfer(decoder, SEND);
      assertThat(log.lines("WARN")).singleElement().asString().contains("kv_role=kv_consumer");
    }
    try (CapturedLog log = new CapturedLog()) {
      assertNoTransfer(prefiller, PULL);
      assertThat(log.lines("WARN")).singleElement().asString().contains("kv_role=kv_producer");
    }
  }

  @Test
  void bothAtOnceIsRefused() {
    try (CapturedLog log = new CapturedLog()) {
      assertNoTransfer(
          scheduler(KvRole.BOTH, FULL, null),
          new KvRequest("r", 50, new KvTransferParams(true, true, "t", "e", ADDRESS)));
      assertThat(log.lines("WARN")).singleElement().asString().contains("both true");
    }
  }

  @Test
  void aSecondRequestOfATransferIsRefusedAndTheFirstGoesOn() {
    KvRequest second =
        new KvRequest("d2", 100, KvTransferParams.forDecoder("t1", "engine-p", ADDRESS));
    decoder.onRequestArrived(PULL);
    try (CapturedLog log = new CapturedLog()) {
      decoder.onRequestArrived(second);
      assertThat(decoder.matchedTokens(second, 0)).isEqualTo(MatchedTokens.NONE);
      decoder.onBlocksAllocated(second, BlockIds.of(20), 16);
      assertThat(log.lines("WARN"))
          .singleElement()
          .asString()
          .contains("request_id=d2", "transfer_id=t1 is in use by request_id=d1");
    }
    decoder.onBlocksAllocated(PULL, BlockIds.of(7, 8), 32);
    assertThat(decoder.buildStep().pulls())
        .extracting(StepPlan.Pull::requestId)
        .containsExactly("d1");
    assertThat(finish(decoder, second, FinishReason.ABORTED, 20)).isFalse();
    assertThat(decoder.buildStep().isEmpty()).as("the first is not released").isTrue();

    decoder.onStepResult(received("d1"));
    finish(decoder, PULL, FinishReason.STOP, 7, 8);
    assertForgotten(decoder);
  }

  @Test
  void aSecondPrefillOfATransferIsRefusedAndDoesNotCancelTheFirst() {
    KvRequest second = new KvRequest("p2", 100, KvTransferParams.forPrefiller("t1"));
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    prefiller.buildStep();
    prefiller.onBlocksAllocated(second, BlockIds.none(), 0);
    assertThat(finish(prefiller, second, FinishReason.ABORTED, 9)).isFalse();
    assertThat(prefiller.buildStep().isEmpty()).isTrue();

    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 4)).isTrue();
    assertThat(prefiller.buildStep().ready())
        .extracting(StepPlan.Ready::requestId)
        .containsExactly("p1");
  }

  @Test
  void theSameRequestSentAgainWhileItsBlocksAreKeptIsServedWithoutATransfer() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    finish(prefiller, SEND, FinishReason.LENGTH, 4);
    prefiller.buildStep();

    prefiller.onRequestArrived(SEND);
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    assertThat(prefiller.buildStep().isEmpty()).isTrue();
    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 5)).as("its own blocks").isFalse();
    assertThat(prefiller.buildStep().isEmpty()).isTrue();

    prefiller.onStepResult(sent("p1", "t1"));
    assertForgotten(prefiller);
  }

  @Test
  void anIdWhoseBlocksAreKeptFetchesNothingUntilItIsReported() {
    pulling(decoder);
    finish(decoder, PULL, FinishReason.ABORTED, 7, 8);
    KvRequest again =
        new KvRequest("d1", 100, KvTransferParams.forDecoder("t2", "engine-p", ADDRESS));

    assertThat(decoder.matchedTokens(again, 0)).isEqualTo(MatchedTokens.NONE);
    decoder.onBlocksAllocated(again, BlockIds.of(30), 16);
    assertThat(decoder.buildStep().pulls()).isEmpty();
    assertThat(finish(decoder, again, FinishReason.STOP, 30)).isFalse();
    decoder.onStepResult(failed("d1", "t1"));
    assertForgotten(decoder);

    assertThat(decoder.matchedTokens(again, 0)).isEqualTo(new MatchedTokens(100, true));
  }

  @Test
  void aPrefillUnderAnIdWhoseBlocksAreKeptIsCancelledAtOnce() {
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    finish(prefiller, SEND, FinishReason.LENGTH, 4);
    prefiller.buildStep();
    KvRequest again = new KvRequest("p1", 100, KvTransferParams.forPrefiller("t2"));

    prefiller.onRequestArrived(again);
    assertThat(prefiller.buildStep().cancelledSends())
        .extracting(StepPlan.CancelledSend::transferId)
        .containsExactly("t2");
    assertThat(finish(prefiller, again, FinishReason.LENGTH, 5)).isFalse();
    prefiller.onStepResult(sent("p1", "t1"));
    assertForgotten(prefiller);
  }

  @Test
  void aDecoderRequestSentAgainBeforeItsReleaseHasGoneOutIsRefused() {
    decoder.onRequestArrived(PULL);
    finish(decoder, PULL, FinishReason.ABORTED);
    decoder.onRequestArrived(PULL);
    decoder.onBlocksAllocated(PULL, BlockIds.of(7), 16);

    assertThat(decoder.buildStep().pulls())
        .containsExactly(new StepPlan.Pull("d1", "t1", "engine-p", ADDRESS, BlockIds.none()));
    assertThat(finish(decoder, PULL, FinishReason.STOP, 7)).isFalse();
    assertForgotten(decoder);
  }

  @Test
  void anIdFromOutsideCannotBreakTheLineOfTheLog() {
    try (CapturedLog log = new CapturedLog()) {
      decoder.onRequestArrived(
          new KvRequest("a\nERROR b" + "c".repeat(500), 1, KvTransferParams.forPrefiller("t")));

      assertThat(log.lines("WARN"))
          .singleElement()
          .asString()
          .contains("request_id=a?ERROR b")
          .doesNotContain("c".repeat(130));
    }
  }

  @Test
  void whatContradictsTheConfigurationThrowsAndChangesNothing() {
    BlockIds twoGroups = BlockIds.ofGroups(new int[] {1}, new int[] {2});
    decoder.onRequestArrived(PULL);
    assertThatThrownBy(() -> decoder.onBlocksAllocated(PULL, twoGroups, 16))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("block_groups=2")
        .hasMessageContaining("cache_groups=1");
    assertThatThrownBy(() -> decoder.onBlocksAllocated(PULL, BlockIds.of(1), -1))
        .hasMessageContaining("external_tokens=-1");
    assertThatThrownBy(() -> decoder.matchedTokens(PULL, -1))
        .hasMessageContaining("computed_tokens=-1");
    assertThat(decoder.buildStep().isEmpty()).isTrue();
    assertThat(decoder.matchedTokens(PULL, 0)).isEqualTo(new MatchedTokens(100, true));

    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    assertThatThrownBy(() -> prefiller.onRequestFinished(SEND, twoGroups, FinishReason.LENGTH))
        .hasMessageContaining("block_groups=2");
    assertThat(finish(prefiller, SEND, FinishReason.LENGTH, 1)).isTrue();
  }

  /** That nothing is left means little where the count does not see what there is. */
  @Test
  void theCountSeesWhatIsRemembered() {
    MooncakeScheduler leased = scheduler(KvRole.CONSUMER, FULL, Duration.ofSeconds(9));
    leased.onRequestArrived(PULL);
    int arrived = leased.size();
    leased.buildStep();
    int waiting = leased.size();
    leased.onBlocksAllocated(PULL, BlockIds.of(7), 16);
    int allocated = leased.size();
    leased.buildStep();
    int pulling = leased.size();
    assertThat(waiting).isPositive().isLessThan(arrived).isLessThan(allocated).isEqualTo(pulling);
    finish(leased, PULL, FinishReason.ABORTED, 7);
    assertThat(leased.size()).as("with a cancellation to be told").isGreaterThan(pulling);

    prefiller.onRequestArrived(SEND);
    prefiller.onBlocksAllocated(SEND, BlockIds.none(), 0);
    int announced = prefiller.size();
    prefiller.buildStep();
    int begun = prefiller.size();
    finish(prefiller, SEND, FinishReason.LENGTH, 4);
    int ready = prefiller.size();
    prefiller.buildStep();
    int kept = prefiller.size();
    assertThat(begun).isPositive().isLessThan(announced).isLessThan(ready).isEqualTo(kept);
    MooncakeScheduler given = scheduler(KvRole.PRODUCER, FULL, null);
    finish(given, SEND, FinishReason.ABORTED);
    assertThat(given.size()).as("with a cancellation to be told").isPositive();

    MooncakeScheduler wrong = scheduler(KvRole.CONSUMER, FULL, null);
    wrong.onRequestArrived(SEND);
    assertThat(wrong.size()).as("with a refusal that is told once").isPositive();
  }

  // ---- helpers

  static MooncakeScheduler scheduler(KvRole role, KvCacheSpec spec, @Nullable Duration lease) {
    ConnectorConfig.Builder builder =
        ConnectorConfig.builder()
            .environment(Map.of())
            .host("127.0.0.1")
            .role(role)
            .cacheSpec(spec);
    return new MooncakeScheduler(
        lease == null ? builder.build() : builder.leaseDuration(lease).build());
  }

  static StepResult received(String requestId) {
    return new StepResult(List.of(), List.of(requestId), List.of(), List.of());
  }

  static StepResult failed(String requestId, String transferId) {
    return new StepResult(
        List.of(),
        List.of(),
        List.of(
            new Failure(
                requestId,
                transferId,
                FailureStage.TRANSFER,
                "because",
                null,
                BlockIds.of(7),
                true)),
        List.of());
  }

  static StepResult sent(String requestId, String transferId) {
    return new StepResult(
        List.of(new StepResult.Sent(requestId, transferId, StepResult.SendEnd.SERVED)),
        List.of(),
        List.of(),
        List.of());
  }

  private static boolean finish(
      MooncakeScheduler scheduler, KvRequest request, FinishReason reason, int... blocks) {
    return scheduler.onRequestFinished(request, BlockIds.of(blocks), reason).keepBlocks();
  }

  private static void pulling(MooncakeScheduler scheduler) {
    scheduler.onRequestArrived(PULL);
    scheduler.onBlocksAllocated(PULL, BlockIds.of(7, 8), 32);
    scheduler.buildStep();
  }

  private static void assertNoTransfer(MooncakeScheduler scheduler, KvRequest request) {
    assertThat(scheduler.onRequestArrived(request)).isEqualTo(request.promptTokens());
    assertThat(scheduler.matchedTokens(request, 0)).isEqualTo(MatchedTokens.NONE);
    scheduler.onBlocksAllocated(request, BlockIds.of(1, 2), 32);
    scheduler.onBlocksAllocated(request, BlockIds.of(1, 2), 32);
    assertThat(scheduler.buildStep().isEmpty()).isTrue();
    assertThat(finish(scheduler, request, FinishReason.LENGTH, 1, 2)).isFalse();
    assertThat(scheduler.buildStep().isEmpty()).isTrue();
    assertForgotten(scheduler);
  }

  private static void assertForgotten(MooncakeScheduler scheduler) {
    assertThat(scheduler.buildStep().isEmpty()).isTrue();
    assertThat(scheduler.size()).isZero();
  }
}
