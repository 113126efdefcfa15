package dev.mooncake4j.examples.pictures;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.metrics.ConnectorMeter;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The dashboard asks for what is exported, for all of it, in forms that can be drawn. */
class GrafanaDashboardTest {
  private static final Pattern METRIC = Pattern.compile("(?:vllm:mooncake_|mooncake4j_)\\w+");

  private final JsonNode dashboard;

  GrafanaDashboardTest() throws IOException {
    dashboard =
        JsonMapper.shared()
            .readTree(Files.readString(Path.of("../docs/grafana/mooncake4j-dashboard.json")));
  }

  @Test
  void everyNameIsExportedAndEveryMeterIsShown() {
    Set<String> shown = new HashSet<>();
    for (Panel panel : Panel.of(dashboard)) {
      for (String expression : panel.legends().keySet()) {
        Matcher matcher = METRIC.matcher(expression);
        assertThat(matcher.find()).as(expression).isTrue();
        do {
          shown.add(matcher.group());
        } while (matcher.find());
      }
    }
    Set<String> exported = new HashSet<>();
    for (ConnectorMeter meter : ConnectorMeter.values()) {
      List<String> names = exported(meter);
      exported.addAll(names);
      assertThat(shown).as("a panel of " + meter).containsAnyElementsOf(names);
    }
    assertThat(exported).containsAll(shown);
  }

  @Test
  void everyExpressionHasTheVariablesAndCanBeDrawn() {
    assertThat(dashboard.path("templating").path("list"))
        .extracting(variable -> variable.path("name").asString())
        .containsExactly("datasource", "model_name", "engine");
    assertThat(Panel.of(dashboard)).hasSizeGreaterThan(10);
    for (Panel panel : Panel.of(dashboard)) {
      for (String expression : panel.legends().keySet()) {
        assertThat(expression).contains("{model_name=~\"$model_name\",engine=~\"$engine\"}");
        assertThat(Query.parse(expression).metric()).isNotEmpty();
      }
    }
  }

  @Test
  void panelsHaveIdsOfTheirOwnAndPlacesOfTheirOwn() {
    Set<Integer> ids = new HashSet<>();
    Set<String> places = new HashSet<>();
    for (JsonNode panel : dashboard.path("panels")) {
      assertThat(ids.add(panel.path("id").asInt())).as(panel.path("title").asString()).isTrue();
      JsonNode at = panel.path("gridPos");
      for (int x = 0; x < at.path("w").asInt(); x++) {
        for (int y = 0; y < at.path("h").asInt(); y++) {
          String place = (at.path("x").asInt() + x) + "," + (at.path("y").asInt() + y);
          assertThat(places.add(place)).as(panel.path("title").asString()).isTrue();
          assertThat(at.path("x").asInt() + x).isLessThan(24);
        }
      }
    }
  }

  @Test
  void thePictureHasEveryPanelAndEveryLine() throws Exception {
    List<Snapshot> snapshots =
        Stream.of(0, 1, 2).map(i -> new Snapshot(i, Sample.parse(scrape(i), "<decoder>"))).toList();
    String svg = DashboardPicture.draw(dashboard, snapshots, "a & b");
    DocumentBuilderFactory.newInstance()
        .newDocumentBuilder()
        .parse(new ByteArrayInputStream(svg.getBytes(StandardCharsets.UTF_8)));
    for (Panel panel : Panel.of(dashboard)) {
      assertThat(svg).contains(">" + panel.title() + "</text>");
    }
    assertThat(svg)
        .contains("fetched by &lt;decoder&gt;, max 2<")
        .contains("&lt;decoder&gt;, max 2 KiB/s<")
        .contains("a &amp; b");
  }

  private static String scrape(int second) {
    return "mooncake4j_pulls{model_name=\"m\",engine=\"0\"} "
        + second
        + "\nvllm:mooncake_bytes_transferred_sum "
        + second * 2048
        + "\n";
  }

  /** As Prometheus has a meter. */
  private static List<String> exported(ConnectorMeter meter) {
    String name = meter.meterName().replace('.', '_');
    return switch (meter.type()) {
      case HISTOGRAM -> List.of(name + "_bucket", name + "_count", name + "_sum");
      case COUNTER -> List.of(name + "_total");
      case GAUGE -> List.of(name);
    };
  }
}
