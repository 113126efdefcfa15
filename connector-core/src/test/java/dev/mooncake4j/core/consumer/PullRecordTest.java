package dev.mooncake4j.core.consumer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.consumer.PullRecord.State;
import dev.mooncake4j.core.rig.RigDecoder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** The table of states and what may happen in each. */
class PullRecordTest {
  private static PullRecord in(State state) {
    PullRecord record = new PullRecord(RigDecoder.pullOf("d", "t", 1), 0);
    switch (state) {
      case RESOLVING -> {}
      case ASKED -> record.asked(2);
      case SETTLING -> record.settleUnasked();
      case ENDED -> {
        record.settleUnasked();
        record.ended();
      }
    }
    assertThat(record.state()).isEqualTo(state);
    return record;
  }

  @Test
  void whatMayHappenInWhichState() {
    Map<String, Consumer<PullRecord>> actions =
        Map.of(
            "ask", r -> r.asked(1),
            "take an answer", PullRecord::answered,
            "settle unasked", PullRecord::settleUnasked,
            "end", PullRecord::ended);
    Map<String, Set<State>> legal =
        Map.of(
            "ask", Set.of(State.RESOLVING),
            "take an answer", Set.of(State.ASKED),
            "settle unasked", Set.of(State.RESOLVING),
            "end", Set.of(State.SETTLING));
    List<String> wrong = new ArrayList<>();
    for (State state : State.values()) {
      actions.forEach(
          (name, action) -> {
            PullRecord record = in(state);
            if (legal.getOrDefault(name, Set.of()).contains(state)) {
              action.accept(record);
            } else {
              try {
                action.accept(record);
                wrong.add(name + " in " + state);
              } catch (IllegalStateException e) {
                assertThat(e).hasMessageContaining("request_id=d").hasMessageContaining(name);
                assertThat(record.state()).isEqualTo(state);
              }
            }
          });
    }
    assertThat(wrong).isEmpty();
  }

  @Test
  void itSettlesWithTheLastAnswer() {
    PullRecord record = in(State.ASKED);
    assertThat(record.answered()).isFalse();
    assertThat(record.state()).isEqualTo(State.ASKED);
    assertThat(record.answered()).isTrue();
    assertThat(record.state()).isEqualTo(State.SETTLING);
    assertThat(record.isFailed()).isFalse();
  }

  @Test
  void theFirstFailureWinsAndAnAbortOverAll() {
    PullRecord record = in(State.ASKED);
    record.fail(FailureStage.TRANSFER, "first", "tcp://a:1");
    record.fail(FailureStage.PLAN, "second", "tcp://b:2");
    assertThat(record.stage()).isEqualTo(FailureStage.TRANSFER);
    assertThat(record.reason()).isEqualTo("first");
    assertThat(record.peer()).isEqualTo("tcp://a:1");
    record.abort();
    assertThat(record.stage()).isEqualTo(FailureStage.ABORTED);
    assertThat(record.reason()).contains("given up").contains("first");
  }

  @Test
  void itIsQuietWhenTheLatestMomentHasPassedThoughTheClockWraps() {
    PullRecord record = in(State.ASKED);
    long now = Long.MAX_VALUE - 5;
    assertThat(record.untilQuiet(now)).isZero();
    record.unquietUntil(now + 10);
    assertThat(record.untilQuiet(now)).isEqualTo(10);
    record.unquietUntil(now + 3);
    assertThat(record.untilQuiet(now)).as("the later one counts").isEqualTo(10);
    assertThat(record.untilQuiet(now + 11)).isNegative();
  }
}
