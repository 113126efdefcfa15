package dev.mooncake4j.examples.pictures;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;

/**
 * One chart of a Grafana dashboard.
 *
 * @param unit Grafana's name of the values' unit
 * @param x from the left, in the 24 columns of Grafana's grid
 * @param y from the top, in rows of Grafana's grid
 * @param width in columns
 * @param height in rows
 * @param legends the legend of each expression
 */
record Panel(
    String title, String unit, int x, int y, int width, int height, Map<String, String> legends) {

  /** The time series of a dashboard; headings of rows are left out. */
  static List<Panel> of(JsonNode dashboard) {
    List<Panel> panels = new ArrayList<>();
    for (JsonNode panel : dashboard.path("panels")) {
      if (!panel.path("type").asString("").equals("timeseries")) {
        continue;
      }
      Map<String, String> legends = new LinkedHashMap<>();
      for (JsonNode target : panel.path("targets")) {
        legends.put(target.path("expr").asString(), target.path("legendFormat").asString(""));
      }
      JsonNode at = panel.path("gridPos");
      panels.add(
          new Panel(
              panel.path("title").asString(),
              panel.path("fieldConfig").path("defaults").path("unit").asString("short"),
              at.path("x").asInt(),
              at.path("y").asInt(),
              at.path("w").asInt(),
              at.path("h").asInt(),
              legends));
    }
    return panels;
  }

  List<Line> lines(List<Snapshot> snapshots) {
    return legends.entrySet().stream()
        .flatMap(e -> Query.parse(e.getKey()).lines(snapshots, e.getValue()).stream())
        .toList();
  }
}
