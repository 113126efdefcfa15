package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.Test;

class PlanShapeTest {
  @Test
  void theShapesHaveAsManyCopiesAsVllmMakesOfThem() {
    assertThat(PlanShape.all())
        .extracting(PlanShape::descriptors)
        .containsExactly(14_336, 499_712, 62_464, 80);
  }

  @Test
  void everyBlockHasAnIdOfItsOwnInRunsWithGaps() {
    for (PlanShape shape : PlanShape.all()) {
      for (List<Integer> ids : List.of(shape.source(), shape.destination())) {
        assertThat(ids).hasSize(shape.blocks());
        assertThat(new HashSet<>(ids)).hasSize(shape.blocks());
        for (int i = 1; i < ids.size(); i++) {
          int step = ids.get(i) - ids.get(i - 1);
          assertThat(step == 1).isEqualTo(i % shape.run() != 0);
        }
      }
    }
  }

  @Test
  void theIdsAreThoseOfPythonsGenerator() {
    List<PlanShape> shapes = PlanShape.all();

    assertThat(shapes.getFirst().source()).startsWith(7, 12, 20, 25, 34).endsWith(3061);
    assertThat(shapes.getFirst().destination()).startsWith(5, 10).endsWith(2996);
    assertThat(shapes.get(2).destination()).startsWith(5, 6).endsWith(13225);
  }
}
