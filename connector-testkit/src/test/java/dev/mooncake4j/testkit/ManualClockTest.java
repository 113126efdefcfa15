package dev.mooncake4j.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class ManualClockTest {
  @Test
  void standsStillUntilItIsMoved() {
    ManualClock clock = new ManualClock(7);
    assertThat(clock.nanoTime()).isEqualTo(7);
    assertThat(clock.nanoTime()).isEqualTo(7);
    clock.advance(Duration.ofMillis(3));
    assertThat(clock.nanoTime()).isEqualTo(3_000_007);
    clock.advance(Duration.ZERO);
    assertThat(clock.nanoTime()).isEqualTo(3_000_007);
  }

  @Test
  void wrapsWithinTwoSecondsSoThatAWrongComparisonShows() {
    ManualClock clock = new ManualClock();
    long start = clock.nanoTime();
    clock.advance(Duration.ofSeconds(2));
    assertThat(clock.nanoTime()).isNegative();
    assertThat(clock.nanoTime() - start).isEqualTo(2_000_000_000L);
  }

  @Test
  void refusesToGoBack() {
    ManualClock clock = new ManualClock(0);
    assertThatThrownBy(() -> clock.advance(Duration.ofNanos(-1)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("step=");
    assertThat(clock.nanoTime()).isZero();
  }
}
