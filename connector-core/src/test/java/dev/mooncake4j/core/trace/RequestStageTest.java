package dev.mooncake4j.core.trace;

import static dev.mooncake4j.core.rig.RigDecoder.pullOf;
import static dev.mooncake4j.core.trace.RecordedStages.only;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.TraceContext;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;
import org.junit.jupiter.api.Test;

/** What a recording has of requests that go well, fail, wait and are held back. */
class RequestStageTest {
  private static final TraceContext TRACE =
      new TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1);

  private static StepPlan announcement(String requestId, String transferId) {
    return new StepPlan(
        List.of(),
        List.of(),
        List.of(),
        List.of(new StepPlan.Announcement(requestId, transferId, TRACE)),
        List.of(),
        List.of());
  }

  private static StepPlan.Pull traced(String requestId, String transferId, int... blocks) {
    return new StepPlan.Pull(
        requestId, transferId, CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP, BlockIds.of(blocks), TRACE);
  }

  private static List<String> texts(List<RecordedEvent> events) {
    return events.stream().map(RecordedStages::text).toList();
  }

  @Test
  void whereNobodyRecordsThereIsNoEvent() {
    assertThat(RequestStage.isOn()).isFalse();
    assertThat(RequestStage.start(Stage.FETCH, new RequestNames("r", "t", TRACE))).isNull();
    RequestStage.finish(null, "answered");
    try (RecordedStages recorded = new RecordedStages()) {
      assertThat(RequestStage.isOn()).isTrue();
      assertThat(RequestStage.start(Stage.FETCH, new RequestNames("r", "t", TRACE))).isNotNull();
      assertThat(recorded.events()).as("never finished").isEmpty();
    }
    assertThat(RequestStage.isOn()).isFalse();
  }

  @Test
  void aRequestThatGoesWellLeavesItsStagesOnBothSides() {
    try (RecordedStages recorded = new RecordedStages();
        CoreRig rig = CoreRig.single()) {
      RigPrefiller prefiller = rig.prefiller();
      RigDecoder decoder = rig.decoder();
      prefiller.step(announcement("p", "t"));
      decoder.pull(traced("d", "t", 5, 6));
      rig.settle();
      prefiller.ready("p", "t", 1, 2);
      rig.settle();
      prefiller.transfers().completeAll();
      rig.settle();
      assertThat(decoder.ends()).containsExactly("d");

      List<RecordedEvent> events = recorded.events();
      assertThat(texts(events))
          .containsExactlyInAnyOrder(
              "decoder find d t found",
              "prefiller prefill p t ready",
              "prefiller wait p t ready",
              "prefiller held p t served",
              "decoder fetch d t answered",
              "decoder request d t received");
      assertThat(events)
          .allSatisfy(
              event -> {
                assertThat(event.getString("traceId")).isEqualTo(TRACE.traceId());
                assertThat(event.getDuration()).isPositive();
                assertThat(event.getString("failedAt")).isNull();
              });
      assertThat(only(events, "fetch").getString("peer")).isEqualTo(prefiller.address());
      assertThat(only(events, "find").getString("peer")).isEqualTo(CoreRig.BOOTSTRAP);
      assertThat(only(events, "wait").getString("peer"))
          .isEqualTo(decoder.engine().host() + ":" + decoder.engine().port());
      for (String stage : List.of("request", "fetch", "held", "wait")) {
        assertThat(only(events, stage).getInt("blocks")).as(stage).isEqualTo(2);
      }
      // The whole has the others of its side within it.
      RecordedEvent whole = only(events, "request");
      for (String stage : List.of("find", "fetch")) {
        assertThat(only(events, stage).getStartTime()).isAfterOrEqualTo(whole.getStartTime());
        assertThat(only(events, stage).getEndTime()).isBeforeOrEqualTo(whole.getEndTime());
      }
    }
  }

  @Test
  void aRequestThatFailsSaysAtWhichStageAndWhy() {
    try (RecordedStages recorded = new RecordedStages();
        CoreRig rig = CoreRig.single()) {
      rig.prefiller().announce("p", "t");
      rig.decoder().pull("d", "t", 5);
      rig.settle();
      rig.prefiller().cancel("p", "t", "no memory");
      rig.settle();

      List<RecordedEvent> events = recorded.events();
      assertThat(texts(events))
          .containsExactlyInAnyOrder(
              "decoder find d t found",
              "prefiller prefill p t cancelled",
              "prefiller wait p t refused",
              "decoder fetch d t failed",
              "decoder request d t failed");
      RecordedEvent whole = only(events, "request");
      assertThat(whole.getString("failedAt")).isEqualTo("prefill");
      assertThat(whole.getString("reason")).contains("no memory");
      assertThat(whole.getString("peer")).isEqualTo(rig.prefiller().address());
      assertThat(whole.getString("traceId")).isNull();
      assertThat(only(events, "wait").getString("reason")).contains("no memory");
    }
  }

  @Test
  void whatIsNotFoundIsNotFetchedAndWhatIsGivenUpIsAborted() {
    try (RecordedStages recorded = new RecordedStages();
        CoreRig rig = CoreRig.single()) {
      rig.decoder()
          .pull(new StepPlan.Pull("d1", "t1", "unknown", CoreRig.BOOTSTRAP, BlockIds.of(1)));
      rig.decoder().pull(pullOf("d2", "t2", 2));
      rig.decoder().pull("release", "t3");
      rig.settle();
      rig.decoder().cancel("d2");
      rig.advanceSeconds(200);
      assertThat(rig.decoder().consumer().pulls()).isZero();

      List<RecordedEvent> events = recorded.events();
      assertThat(texts(events))
          .contains(
              "decoder find d1 t1 failed",
              "decoder request d1 t1 failed",
              "decoder fetch d2 t2 failed",
              "decoder request d2 t2 aborted",
              "prefiller wait d2 t2 refused")
          .noneMatch(text -> text.contains(" fetch d1 "))
          .noneMatch(text -> text.contains("decoder") && text.contains(" t3 "));
    }
  }

  @Test
  void blocksThatAreHeldBackAreSoUntilTheyAreQuietAlsoWhenTheFailureIsReportedBefore() {
    try (RecordedStages recorded = new RecordedStages();
        CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(0, 1))) {
      RawPrefiller prefiller = rig.rawPrefiller();
      rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(prefiller.address())));
      rig.decoder().pull("d1", "t1", 1);
      rig.settle();
      prefiller.question().failUnproven("transfer engine: code=5", "d1");
      rig.advanceSeconds(3);
      rig.decoder().pull("d2", "t2", 2);
      rig.settle();
      prefiller.question();
      rig.network().onlyConnection().cut(true);
      rig.settle();
      prefiller.question();
      rig.advanceSeconds(6);
      assertThat(rig.decoder().consumer().quarantinedBlocks()).isEqualTo(1);
      rig.advanceSeconds(200);

      assertThat(texts(recorded.events()))
          .containsExactly(
              "decoder find d1 t1 found",
              "decoder fetch d1 t1 failed",
              "decoder held_back d1 t1 quiet",
              "decoder request d1 t1 failed",
              "decoder find d2 t2 found",
              "decoder fetch d2 t2 broken",
              "decoder request d2 t2 failed",
              "decoder held_back d2 t2 quiet");
    }
  }

  @Test
  void aCheckOfWhatHasArrivedIsAStage() {
    try (RecordedStages recorded = new RecordedStages();
        CoreRig rig = new CoreRig(RigOptions.defaults().withIntegrityCheck(true))) {
      rig.prefiller().cache().fill(7, 1);
      rig.prefiller().ready("p1", "t1", 1);
      rig.prefiller().ready("p2", "t2", 2);
      rig.decoder().pull(pullOf("d1", "t1", 11), pullOf("d2", "t2", 12));
      rig.settle();
      rig.prefiller().cache().fill(8, 2);
      rig.prefiller().transfers().completeAll();
      rig.settle();

      assertThat(texts(recorded.events()))
          .contains("decoder check d1 t1 equal", "decoder check d2 t2 failed")
          .contains("decoder request d1 t1 received", "decoder request d2 t2 failed");
    }
  }
}
