package dev.mooncake4j.examples.pictures;

import java.util.List;
import tools.jackson.databind.JsonNode;

/** Draws the panels of the Grafana dashboard where Grafana would have them. */
final class DashboardPicture {
  private static final int WIDTH = 1080;
  private static final int COLUMN = WIDTH / 24;
  private static final int ROW = 23;
  private static final int GAP = 4;
  private static final int TOP = 44;

  private DashboardPicture() {}

  static String draw(JsonNode dashboard, List<Snapshot> snapshots, String subtitle) {
    List<Panel> panels = Panel.of(dashboard);
    int rows = 0;
    for (JsonNode panel : dashboard.path("panels")) {
      JsonNode at = panel.path("gridPos");
      rows = Math.max(rows, at.path("y").asInt() + at.path("h").asInt());
    }
    String title = dashboard.path("title").asString();
    Svg svg = new Svg(WIDTH, TOP + rows * ROW + GAP, title);
    svg.heading(10, 20, 15, title);
    svg.text(10, 36, 10, "start", Svg.FAINT, subtitle);
    for (JsonNode panel : dashboard.path("panels")) {
      if (panel.path("type").asString("").equals("row")) {
        int y = panel.path("gridPos").path("y").asInt();
        svg.heading(10, TOP + y * ROW + 16, 12, panel.path("title").asString());
      }
    }
    double seconds = snapshots.isEmpty() ? 1 : Math.max(1, snapshots.getLast().seconds());
    for (Panel panel : panels) {
      new Chart(
              svg,
              panel.x() * COLUMN + GAP,
              TOP + panel.y() * ROW + GAP,
              panel.width() * COLUMN - 2 * GAP,
              panel.height() * ROW - 2 * GAP)
          .draw(panel.title(), panel.unit(), panel.lines(snapshots), seconds);
    }
    return svg.end();
  }
}
