package dev.mooncake4j.examples.pictures;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;

/** Draws one request: a row for each stage, the sides beneath each other. */
final class TimelinePicture {
  private static final List<String> SIDES = List.of("client", "proxy", "decoder", "prefiller");
  private static final int WIDTH = 1080;
  private static final int LEFT = 230;
  private static final int RIGHT = 120;
  private static final int TOP = 70;
  private static final int ROW = 22;
  private static final int TICKS = 8;

  private TimelinePicture() {}

  /**
   * Draws.
   *
   * @param bars at least one; of which the earliest is at 0 ms
   */
  static String draw(String title, String subtitle, List<Bar> bars) {
    List<Bar> rows = new ArrayList<>(bars);
    rows.sort(
        Comparator.comparingInt((Bar bar) -> SIDES.indexOf(bar.side()))
            .thenComparing(Bar::start)
            .thenComparing(Bar::end, Comparator.reverseOrder()));
    Instant begin = rows.stream().map(Bar::start).min(Comparator.naturalOrder()).orElseThrow();
    Instant end = rows.stream().map(Bar::end).max(Comparator.naturalOrder()).orElseThrow();
    double all = Math.max(1e-3, millis(begin, end));
    int bottom = TOP + rows.size() * ROW + 6;
    Svg svg = new Svg(WIDTH, bottom + 10, title);
    svg.heading(10, 22, 15, title);
    svg.text(10, 40, 10, "start", Svg.FAINT, subtitle);
    double step = Chart.step(all * 4 / TICKS, "ms");
    for (double at = 0; at <= all; at += step) {
      svg.line(across(at, all), TOP - 4, across(at, all), bottom, Svg.GRID);
      svg.text(across(at, all), TOP - 9, 9, "middle", Svg.FAINT, tick(at));
    }
    String before = "";
    for (int i = 0; i < rows.size(); i++) {
      Bar bar = rows.get(i);
      double y = TOP + i * ROW;
      if (!bar.side().equals(before)) {
        svg.line(10, y - 1, WIDTH - 10, y - 1, "#c8cdd3");
        svg.heading(10, y + 15, 12, bar.side());
        before = bar.side();
      }
      row(svg, bar, y, millis(begin, bar.start()), all);
    }
    return svg.end();
  }

  private static void row(Svg svg, Bar bar, double y, double from, double all) {
    svg.text(LEFT - 10, y + 14, 11, "end", Svg.INK, bar.stage());
    double x = across(from, all);
    double width = Math.max(2, across(from + bar.millis(), all) - x);
    String colour = Svg.COLOURS.get(Math.max(0, SIDES.indexOf(bar.side())));
    svg.box(x, y + 3, width, ROW - 8, colour, "none");
    String told =
        Units.millis(bar.millis()) + (bar.outcome().isEmpty() ? "" : ", " + bar.outcome());
    // Beside the bar where there is room, otherwise in it.
    if (x + width + 6.5 * told.length() < WIDTH) {
      svg.text(x + width + 5, y + 14, 10, "start", Svg.INK, told);
    } else {
      svg.text(x + width - 5, y + 14, 10, "end", "#ffffff", told);
    }
  }

  private static double across(double millis, double all) {
    return LEFT + (WIDTH - LEFT - RIGHT) * millis / all;
  }

  private static String tick(double millis) {
    return String.format(Locale.ROOT, millis == Math.rint(millis) ? "%.0f ms" : "%.2f ms", millis);
  }

  private static double millis(Instant from, Instant to) {
    return Duration.between(from, to).toNanos() / 1e6;
  }
}
