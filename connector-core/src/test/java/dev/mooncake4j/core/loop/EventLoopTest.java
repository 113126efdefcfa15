package dev.mooncake4j.core.loop;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class EventLoopTest {
  private final AtomicLong time = new AtomicLong(1_000);
  private final EventLoop loop = new EventLoop(time::get);
  private final List<String> ran = new ArrayList<>();

  @Test
  void runsPostedEventsInOrderAndDeadlinesByTheirMoment() {
    loop.schedule(200, () -> ran.add("late"));
    loop.schedule(100, () -> ran.add("early"));
    loop.post(() -> ran.add("posted"));
    assertThat(loop.untilNext(50)).isZero();
    loop.runDue();
    assertThat(ran).containsExactly("posted");
    assertThat(loop.untilNext(1_000)).isEqualTo(100);
    assertThat(loop.untilNext(30)).isEqualTo(30);
    time.addAndGet(250);
    loop.runDue();
    assertThat(ran).containsExactly("posted", "early", "late");
    assertThat(loop.pendingDeadlines()).isZero();
  }

  @Test
  void anEventThatThrowsDoesNotEndTheLoop() {
    loop.post(
        () -> {
          throw new IllegalStateException("made to fail");
        });
    loop.post(() -> ran.add("next"));
    loop.runDue();
    assertThat(ran).containsExactly("next");
    assertThat(loop.failedEvents()).isEqualTo(1);
  }

  @Test
  void aDeadlineCancelledByAnEarlierOneDoesNotRun() {
    Deadline second = loop.schedule(100, () -> ran.add("second"));
    loop.schedule(50, second::cancel);
    time.addAndGet(500);
    loop.runDue();
    assertThat(ran).isEmpty();
  }

  @Test
  void postingWakesTheDriver() {
    AtomicInteger woken = new AtomicInteger();
    loop.onWakeup(woken::incrementAndGet);
    loop.post(() -> ran.add("x"));
    assertThat(woken).hasValue(1);
  }
}
