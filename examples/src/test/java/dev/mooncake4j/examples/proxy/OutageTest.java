package dev.mooncake4j.examples.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.slf4j.event.Level;

/** What the log hears of a prefiller that is away, on a clock in the test's hand. */
class OutageTest {
  private long nanos = -5;
  private final Outage outage = new Outage(() -> nanos);

  private void pass(long seconds) {
    nanos += TimeUnit.SECONDS.toNanos(seconds);
  }

  @Test
  void itIsToldOnceThenEachMinuteAndOnceWhenItIsOver() {
    assertThat(outage.asked(null)).isNull();
    assertThat(outage.asked("after ms=1"))
        .isEqualTo(new Outage.Notice(Level.WARN, "cannot be used: after ms=1"));
    for (int i = 0; i < 29; i++) {
      pass(2);
      assertThat(outage.asked("after ms=" + i)).isNull();
    }
    pass(2);
    assertThat(outage.asked("after ms=3"))
        .isEqualTo(new Outage.Notice(Level.WARN, "cannot be used, for s=60 now: after ms=3"));
    pass(59);
    assertThat(outage.asked("after ms=4")).isNull();
    assertThat(outage.asked(null))
        .isEqualTo(new Outage.Notice(Level.INFO, "can be used again after s=119"));
    assertThat(outage.asked(null)).isNull();
    assertThat(outage.asked("down")).isNotNull();
  }
}
