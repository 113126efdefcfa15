package dev.mooncake4j.bench.measure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.List;
import org.junit.jupiter.api.Test;

class SamplesTest {
  @Test
  void theMedianOfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle() {
    assertThat(Samples.of(List.of(4.0, 1.0, 3.0, 2.0)).median()).isEqualTo(2.5);
    assertThat(Samples.of(List.of(9.0, 1.0, 3.0)).median()).isEqualTo(3.0);
  }

  @Test
  void aPercentileIsOneOfTheValues() {
    Samples hundred =
        new Samples(java.util.stream.DoubleStream.iterate(1, d -> d + 1).limit(100).toArray());

    assertThat(hundred.percentile(99)).isEqualTo(99);
    assertThat(hundred.percentile(50)).isEqualTo(50);
    assertThat(hundred.percentile(100)).isEqualTo(hundred.max()).isEqualTo(100);
    assertThat(hundred.percentile(0)).isEqualTo(hundred.min()).isEqualTo(1);
    assertThat(Samples.of(List.of(7.0)).percentile(99)).isEqualTo(7);
  }

  @Test
  void noValuesAreRefused() {
    assertThatIllegalArgumentException().isThrownBy(() -> Samples.of(List.of()));
  }
}
