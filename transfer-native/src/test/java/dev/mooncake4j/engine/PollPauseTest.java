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
  void onFewProcessorsAPauseIsAThirtySecondPartOfTheWaitWithinBounds(long waited, long pause) {
    assertThat(PollPause.nanos(waited, 1)).isEqualTo(pause);
    assertThat(PollPause.nanos(waited, PollPause.FEW_PROCESSORS)).isEqualTo(pause);
  }

  @ParameterizedTest
  @CsvSource({
    "0, 20000",
    "8960000, 20000",
    "12800000, 50000",
    "25600000, 150000",
    "70400000, 500000",
    "60000000000, 500000",
    "9223372036854775807, 500000"
  })
  void onMoreItIsAFourthOfThatLessWhatTheTimerAdds(long waited, long pause) {
    assertThat(PollPause.nanos(waited, PollPause.FEW_PROCESSORS + 1)).isEqualTo(pause);
    assertThat(PollPause.nanos(waited, 128)).isEqualTo(pause);
  }

  @Test
  void aCopyOfSomeMillisecondsIsNoticedSoonWhereThereAreProcessors() {
    long timer = 50_000;
    assertThat(PollPause.nanos(7_500_000, 16) + timer).isLessThanOrEqualTo(70_000);
    assertThat(PollPause.nanos(7_500_000, 2) + timer).isLessThanOrEqualTo(290_000);
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
