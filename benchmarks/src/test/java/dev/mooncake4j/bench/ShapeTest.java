package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ShapeTest {
  private final Random random = new Random(1);

  @Test
  void contiguousIdsFollowEachOther() {
    int[] ids = new Shape(2, 50, false).ids(148, random);

    assertThat(ids).hasSize(100);
    for (int i = 1; i < ids.length; i++) {
      assertThat(ids[i]).isEqualTo(ids[i - 1] + 1);
    }
    assertThat(ids[99]).isLessThan(148);
  }

  @Test
  void scatteredIdsAreDistinctAndAlmostNeverFollowEachOther() {
    int[] ids = new Shape(1, 100, true).ids(148, random);

    assertThat(Arrays.stream(ids).distinct().count()).isEqualTo(100);
    assertThat(Arrays.stream(ids)).allMatch(id -> id >= 0 && id < 148);
    int following = 0;
    for (int i = 1; i < ids.length; i++) {
      following += ids[i] == ids[i - 1] + 1 ? 1 : 0;
    }
    assertThat(following).isLessThan(10);
  }

  @Test
  void moreBlocksThanThereAreAreRefused() {
    assertThatIllegalArgumentException().isThrownBy(() -> new Shape(2, 5, true).ids(9, random));
  }

  @Test
  void namesSayHowManyAndHow() {
    assertThat(new Shape(1, 64, true)).hasToString("64 scattered");
    assertThat(new Shape(8, 64, false)).hasToString("8 x 64 contiguous");
  }
}
