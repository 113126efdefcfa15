package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What scheduler and workers hand to one another crosses processes whole. */
class PlainDataTest {
  private static final BlockIds BLOCKS = BlockIds.ofGroups(new int[] {3, 1}, new int[] {7});

  private static final TraceContext TRACE =
      new TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1);

  private static final StepPlan PLAN =
      new StepPlan(
          List.of(new StepPlan.Arrival("r1", "t1", "e1", "http://p:8998")),
          List.of(
              new StepPlan.Pull("r2", "t2", "e1", "http://p:8998", BLOCKS, TRACE),
              new StepPlan.Pull("r3", "t3", "e1", "http://p:8998", BlockIds.none())),
          List.of("r4"),
          List.of(new StepPlan.Announcement("r5", "t5", TRACE)),
          List.of(new StepPlan.Ready("r6", "t6", BLOCKS)),
          List.of(
              new StepPlan.CancelledSend("r7", "t7", "aborted"),
              new StepPlan.CancelledSend("r8", "t8", "aborted", true)),
          List.of(new StepPlan.Progress("r9", "t9", 1, BLOCKS, List.of(4, 1))));

  private static final StepResult RESULT =
      new StepResult(
          List.of(new StepResult.Sent("r1", "t1", StepResult.SendEnd.EXPIRED)),
          List.of("r2"),
          List.of(
              new Failure(
                  "r3", "t3", FailureStage.TRANSFER, "code=5", "10.0.0.1:15000", BLOCKS, true),
              new Failure(
                  "r4", "t4", FailureStage.REQUEST, "no id", null, BlockIds.of(2, 3), false)),
          List.of(
              new Failure(
                  "r5", "t5", FailureStage.SIDE_CHANNEL, "cut", "tcp://10.0.0.1:1", BLOCKS, true)));

  @Test
  void aPlanIsTheSameInAnotherProcess() throws Exception {
    assertThat(roundTrip(PLAN)).isEqualTo(PLAN).isNotSameAs(PLAN);
    assertThat(roundTrip(StepPlan.empty()).isEmpty()).isTrue();
  }

  @Test
  void aResultIsTheSameInAnotherProcess() throws Exception {
    assertThat(roundTrip(RESULT)).isEqualTo(RESULT).isNotSameAs(RESULT);
    assertThat(roundTrip(StepResult.empty()).isEmpty()).isTrue();
  }

  @Test
  void whatARequestConsistsOfIsTheSameInAnotherProcess() throws Exception {
    KvRequest request =
        new KvRequest("r1", 100, KvTransferParams.forDecoder("t", "e", "http://p:8998"));
    assertThat(roundTrip(request)).isEqualTo(request);
    KvCacheSpec spec =
        new KvCacheSpec(
            List.of(KvCacheGroup.fullAttention(16), KvCacheGroup.slidingWindow(16, 128)),
            8,
            true,
            2);
    assertThat(roundTrip(spec)).isEqualTo(spec);
    assertThat(roundTrip(BlockIds.none())).isEqualTo(BlockIds.none());
    assertThat(roundTrip(new RankLayout(1, 2, 0, 1, 3))).isEqualTo(new RankLayout(1, 2, 0, 1, 3));
  }

  @Test
  void theErrorsCrossTooWithWhatTheyTell() throws Exception {
    ConfigurationException refused = roundTrip(new ConfigurationException(List.of("a=1", "b=2")));
    assertThat(refused.problems()).containsExactly("a=1", "b=2");
    TransferEngineException failed =
        roundTrip(new TransferEngineException("write", 5, "peer=x", null));
    assertThat(failed.operation()).isEqualTo("write");
    assertThat(failed.code()).isEqualTo(5);
    assertThat(failed).hasMessage("operation=write code=5: peer=x");
  }

  @Test
  void aPlanWithOneEntryAnywhereIsNotEmpty() {
    assertThat(StepPlan.empty().isEmpty()).isTrue();
    List<StepPlan> plans =
        List.of(
            new StepPlan(PLAN.arrivals(), List.of(), List.of(), List.of(), List.of(), List.of()),
            new StepPlan(List.of(), PLAN.pulls(), List.of(), List.of(), List.of(), List.of()),
            new StepPlan(
                List.of(), List.of(), PLAN.cancelledPulls(), List.of(), List.of(), List.of()),
            new StepPlan(
                List.of(), List.of(), List.of(), PLAN.announcements(), List.of(), List.of()),
            new StepPlan(List.of(), List.of(), List.of(), List.of(), PLAN.ready(), List.of()),
            new StepPlan(
                List.of(), List.of(), List.of(), List.of(), List.of(), PLAN.cancelledSends()),
            new StepPlan(
                List.of(), List.of(), List.of(), List.of(), List.of(), List.of(), PLAN.progress()));
    assertThat(plans).noneMatch(StepPlan::isEmpty);
  }

  @Test
  void theListsAreCopied() {
    List<String> received = new ArrayList<>(List.of("r1"));
    StepResult result = new StepResult(List.of(), received, List.of(), List.of());
    List<String> cancelled = new ArrayList<>(List.of("r1"));
    StepPlan plan = new StepPlan(List.of(), List.of(), cancelled, List.of(), List.of(), List.of());
    received.clear();
    cancelled.clear();
    assertThat(result.received()).containsExactly("r1");
    assertThat(plan.cancelledPulls()).containsExactly("r1");
  }

  @Test
  void noGroupHasMoreFinishedThanItWillHave() {
    assertThatThrownBy(() -> new StepPlan.Progress("r", "t", 0, BLOCKS, List.of(4)))
        .hasMessageContaining("totals=1")
        .hasMessageContaining("groups=2");
    assertThatThrownBy(() -> new StepPlan.Progress("r", "t", 0, BLOCKS, List.of(1, 1)))
        .hasMessageContaining("group=0")
        .hasMessageContaining("blocks=2")
        .hasMessageContaining("total=1");
  }

  @Test
  void resultsAreJoinedInTheirOrder() {
    StepResult other =
        new StepResult(
            List.of(new StepResult.Sent("r9", "t9", StepResult.SendEnd.SERVED)),
            List.of("r8"),
            List.of(),
            List.of());
    StepResult both = RESULT.plus(other);
    assertThat(both.sent()).extracting(StepResult.Sent::requestId).containsExactly("r1", "r9");
    assertThat(both.received()).containsExactly("r2", "r8");
    assertThat(both.failed()).isEqualTo(RESULT.failed());
    assertThat(both.quieted()).isEqualTo(RESULT.quieted());
    assertThat(StepResult.empty().plus(RESULT)).isSameAs(RESULT);
    assertThat(RESULT.plus(StepResult.empty())).isSameAs(RESULT);
  }

  @Test
  void theIdsOfAllFailedBlocksAreInOneSet() {
    assertThat(RESULT.failedBlockIds()).containsExactly(1, 2, 3, 7);
    assertThat(StepResult.empty().failedBlockIds()).isEmpty();
  }

  private static <T> T roundTrip(T value) throws IOException, ClassNotFoundException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(value);
    }
    try (ObjectInputStream in =
        new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      @SuppressWarnings("unchecked") // It is what was written.
      T read = (T) in.readObject();
      return read;
    }
  }
}
