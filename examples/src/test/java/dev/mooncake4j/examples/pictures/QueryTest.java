package dev.mooncake4j.examples.pictures;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.junit.jupiter.api.Test;

/** What Prometheus would answer, on scrapes of a few lines. */
class QueryTest {
  private static final String SELECTOR = "{model_name=~\"$model_name\"}";

  @Test
  void aScrapeIsRead() {
    List<Sample> samples =
        Sample.parse("# HELP a b\na_bucket{le=\"+Inf\",x=\"say \\\"a,b}\\\"\"} 3.0\nb 1e3\n", "p");
    assertThat(samples).extracting(Sample::name).containsExactly("a_bucket", "b");
    assertThat(samples.getFirst().labels())
        .containsEntry("le", "+Inf")
        .containsEntry("x", "say \"a,b}\"")
        .containsEntry("instance", "p");
    assertThat(samples.getLast().value()).isEqualTo(1000);
    assertThatThrownBy(() -> Sample.parse("<html>", "p")).hasMessageContaining("line=<html>");
  }

  @Test
  void aGaugeIsSummedByInstance() {
    Snapshot snapshot = new Snapshot(0, Sample.parse("g{e=\"0\"} 2\ng{e=\"1\"} 3\nother 9\n", "p"));
    assertThat(
            Query.parse("sum by (instance) (g" + SELECTOR + ")")
                .lines(List.of(snapshot), "of {{instance}}"))
        .containsExactly(new Line("of p", List.of(new Line.Point(0, 5))));
  }

  @Test
  void aRateIsTheGrowthOverItsTime() {
    List<Snapshot> snapshots =
        List.of(at(0, "c 10\n"), at(2, "c 14\n"), at(Query.RATE_SECONDS + 1, "c 14\n"));
    Line line =
        Query.parse("sum (rate(c" + SELECTOR + "[$__rate_interval]))")
            .lines(snapshots, "all")
            .getFirst();
    assertThat(line.points())
        .containsExactly(new Line.Point(2, 2), new Line.Point(Query.RATE_SECONDS + 1, 0));
  }

  @Test
  void aQuantileLiesWithinItsBucket() {
    String none = "h_bucket{le=\"1\"} 0\nh_bucket{le=\"2\"} 0\nh_bucket{le=\"+Inf\"} 0\n";
    String some = "h_bucket{le=\"1\"} 4\nh_bucket{le=\"2\"} 8\nh_bucket{le=\"+Inf\"} 10\n";
    assertThat(quantile(0.6, none, some)).isCloseTo(1.5, within(1e-9));
    assertThat(quantile(0.2, none, some)).isCloseTo(0.5, within(1e-9));
    assertThat(quantile(0.99, none, some)).as("beyond all bounds").isEqualTo(2);
    assertThat(quantile(0.5, some, some)).as("nothing happened").isNaN();
  }

  @Test
  void anExpressionOfAnotherFormIsRefused() {
    assertThatThrownBy(() -> Query.parse("avg(g)")).hasMessageContaining("expr=avg(g)");
  }

  private static double quantile(double quantile, String before, String after) {
    return Query.parse(
            "histogram_quantile("
                + quantile
                + ", sum by (le) (rate(h_bucket"
                + SELECTOR
                + "[$__rate_interval])))")
        .lines(List.of(at(0, before), at(1, after)), "q")
        .getFirst()
        .points()
        .getLast()
        .value();
  }

  private static Snapshot at(double seconds, String scrape) {
    return new Snapshot(seconds, Sample.parse(scrape, "p"));
  }
}
