package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.bench.Figure.Rule;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class FigureTest {
  @Test
  void aRatioIsOursOverThePeers() {
    assertThat(met(10.0, 5.0, Rule.RATIO_AT_LEAST, 2)).isTrue();
    assertThat(met(9.9, 5.0, Rule.RATIO_AT_LEAST, 2)).isFalse();
    assertThat(met(1.0, 4.0, Rule.RATIO_AT_MOST, 0.25)).isTrue();
    assertThat(met(1.1, 4.0, Rule.RATIO_AT_MOST, 0.25)).isFalse();
    assertThat(Figure.of("f", 10.0, 4.0, "ms", Rule.RATIO_AT_MOST, 1, "").ratio()).isEqualTo(2.5);
  }

  @Test
  void aDifferenceIsOursLessThePeers() {
    assertThat(met(8.9, 8.0, Rule.DIFFERENCE_AT_MOST, 1)).isTrue();
    assertThat(met(9.1, 8.0, Rule.DIFFERENCE_AT_MOST, 1)).isFalse();
  }

  @Test
  void aBoundNeedsNoPeer() {
    assertThat(met(4.9, null, Rule.BELOW, 5)).isTrue();
    assertThat(met(5.0, null, Rule.BELOW, 5)).isFalse();
  }

  @Test
  void whatWasNotMeasuredIsNeitherMetNorMissed() {
    assertThat(met(null, 1.0, Rule.RATIO_AT_LEAST, 2)).isNull();
    assertThat(met(1.0, null, Rule.RATIO_AT_LEAST, 2)).isNull();
    assertThat(met(1.0, null, Rule.DIFFERENCE_AT_MOST, 2)).isNull();
    assertThat(met(null, null, Rule.BELOW, 2)).isNull();
  }

  @Test
  void nothingIsComparedWithAPeerThatCostsNothing() {
    assertThat(met(1.0, 0.0, Rule.RATIO_AT_MOST, 0.3)).isNull();
    assertThat(met(1.0, -0.5, Rule.RATIO_AT_MOST, 0.3)).isNull();
  }

  private static @Nullable Boolean met(
      @Nullable Double ours, @Nullable Double peer, Rule rule, double bound) {
    return Figure.of("f", ours, peer, "", rule, bound, "").met();
  }
}
