package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

class TargetsTest {
  private static final long MEGABYTE = 1_000_000;

  private final Results results = new Results(MEGABYTE);

  @Test
  void latencyIsComparedWithTheFasterWayOfPolling() {
    Shape shape = new Shape(1, 8, false);
    add(shape, Party.OURS, 0.0105, 0.0105, 0.5);
    add(shape, Party.VLLM, 0.013);
    add(shape, Party.ENGINE_SPINNING, 0.020);
    add(shape, Party.ENGINE_PARKING, 0.010);

    List<Figure> figures = Targets.oneRequest(results);

    assertThat(figures).hasSize(2);
    assertThat(figures.get(0).peer()).isEqualTo(10.0);
    assertThat(figures.get(0).met()).isTrue();
    assertThat(figures.get(1).ours()).isCloseTo(0.5, org.assertj.core.data.Offset.offset(1e-9));
    assertThat(figures.get(1).ratio())
        .isCloseTo(0.5 / 3, org.assertj.core.data.Offset.offset(1e-9));
    assertThat(figures.get(1).met()).isTrue();
  }

  @Test
  void speedIsBytesOfAllRequestsOverTheMedianTime() {
    Shape shape = new Shape(1, 2000, true);
    add(shape, Party.OURS, 2);
    add(shape, Party.VLLM, 5);
    add(shape, Party.ENGINE_PARKING, 1.8);

    List<Figure> figures = Targets.oneRequest(results);

    assertThat(figures).extracting(Figure::ours).containsExactly(1.0, 1.0);
    assertThat(figures).extracting(Figure::peer).containsExactly(2 / 1.8, 0.4);
    assertThat(figures).extracting(Figure::met).containsExactly(false, true);
  }

  @Test
  void withoutVllmItsTargetsStayOpen() {
    Shape shape = new Shape(8, 64, false);
    add(shape, Party.OURS, 0.256);

    Figure figure = Targets.many(results).getFirst();

    assertThat(figure.ours()).isEqualTo(2.0);
    assertThat(figure.peer()).isNull();
    assertThat(figure.met()).isNull();
  }

  @Test
  void manySmallOnesHaveARateAndATail() {
    Shape shape = new Shape(64, 1, false);
    results.add(shape, Party.OURS, Measured.of(List.of(0.01, 0.02, 0.03), 0.032));
    results.add(shape, Party.VLLM, Measured.of(List.of(0.1, 0.2, 0.4), 0.4));

    List<Figure> figures = Targets.many(results);

    assertThat(figures).extracting(Figure::ours).containsExactly(2000.0, 30.0);
    assertThat(figures).extracting(Figure::peer).containsExactly(160.0, 400.0);
    assertThat(figures).extracting(Figure::met).containsExactly(true, true);
  }

  private void add(Shape shape, Party party, double... seconds) {
    for (double each : seconds) {
      results.add(shape, party, Measured.of(List.of(each), each));
    }
  }
}
