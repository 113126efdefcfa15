package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepResult.SendEnd;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.producer.SendRecord.State;
import dev.mooncake4j.core.trace.RequestNames;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** The table of states and what may happen in each. */
class SendRecordTest {
  private final EventLoop loop = new EventLoop(() -> 0);

  private Deadline deadline() {
    return loop.schedule(1_000, () -> {});
  }

  private SendRecord in(State state) {
    SendRecord record = new SendRecord(new RequestNames("p", "t", null));
    if (state != State.ANNOUNCED) {
      record.ready(BlockIds.of(1), deadline());
    }
    if (state == State.ENDING) {
      record.beginWrite();
      record.finish(SendEnd.EXPIRED);
    } else if (state == State.ENDED) {
      record.finish(SendEnd.EXPIRED);
    }
    assertThat(record.state()).isEqualTo(state);
    return record;
  }

  @Test
  void whatMayHappenInWhichState() {
    Map<String, Consumer<SendRecord>> actions =
        Map.of(
            "ready", r -> r.ready(BlockIds.of(1), deadline()),
            "release early", SendRecord::releaseWhenReady,
            "begin a write", SendRecord::beginWrite,
            "end a write", SendRecord::endWrite,
            "finish", r -> r.finish(SendEnd.SERVED));
    Map<String, Set<State>> legal =
        Map.of(
            "ready", Set.of(State.ANNOUNCED),
            "release early", Set.of(State.ANNOUNCED),
            "begin a write", Set.of(State.ANNOUNCED, State.READY),
            // One write is under way in ENDING alone.
            "end a write", Set.of(State.ENDING),
            "finish", Set.of(State.ANNOUNCED, State.READY));
    List<String> wrong = new ArrayList<>();
    for (State state : State.values()) {
      actions.forEach(
          (name, action) -> {
            SendRecord record = in(state);
            if (legal.getOrDefault(name, Set.of()).contains(state)) {
              action.accept(record);
            } else {
              try {
                action.accept(record);
                wrong.add(name + " in " + state);
              } catch (IllegalStateException e) {
                assertThat(e).hasMessageContaining("transfer_id=t").hasMessageContaining(name);
                assertThat(record.state()).isEqualTo(state);
              }
            }
          });
    }
    assertThat(wrong).isEmpty();
  }

  @Test
  void anEndWaitsForEveryWrite() {
    SendRecord record = in(State.READY);
    record.beginWrite();
    record.beginWrite();
    assertThat(record.finish(SendEnd.SERVED)).isFalse();
    assertThat(record.endWrite()).isFalse();
    assertThat(record.state()).isEqualTo(State.ENDING);
    assertThat(record.endWrite()).isTrue();
    assertThat(record.state()).isEqualTo(State.ENDED);
    assertThat(record.end()).isEqualTo(SendEnd.SERVED);
    assertThatThrownBy(record::endWrite).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aWriteThatEndsInGoodTimeEndsNothing() {
    SendRecord record = in(State.READY);
    record.beginWrite();
    assertThat(record.endWrite()).isFalse();
    assertThat(record.state()).isEqualTo(State.READY);
    assertThat(record.finish(null)).isTrue();
  }

  @Test
  void anEndTakesTheExpiryAway() {
    SendRecord record = in(State.READY);
    assertThat(loop.pendingDeadlines()).isEqualTo(1);
    record.finish(SendEnd.RELEASED);
    assertThat(loop.pendingDeadlines()).isZero();
  }

  @Test
  void ranksServedAreCountedByTheirSession() {
    SendRecord record = in(State.READY);
    assertThat(record.served("a:1")).isEqualTo(1);
    assertThat(record.served("a:1")).isEqualTo(1);
    assertThat(record.served("a:2")).isEqualTo(2);
  }
}
