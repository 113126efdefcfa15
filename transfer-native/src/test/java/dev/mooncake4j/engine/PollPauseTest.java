package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PollPauseTest {

  @ParameterizedTest
  @CsvSource({
    "0, 20000",
    "640000, 20000",
    "3200000, 100000",
    "16000000, 500000",
    "60000000000, 500000",
    "9223372036854775807, 500000"
  })
  void aPauseIsAThirtySecondPartOfTheWaitWithinBounds(long waited, long pause) {
    assertThat(PollPause.nanos(waited)).isEqualTo(pause);
  }

  @Test
  void theNextTransferIsWaitedForQuicklyAgain() {
    PollPause pause = new PollPause();
    for (int i = 0; i < 40; i++) {
      pause.pause();
    }
    assertThat(pause.isSpinning()).isFalse();
    pause.reset();
    assertThat(pause.isSpinning()).isTrue();
  }
}
