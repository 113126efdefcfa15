package dev.mooncake4j.examples.pictures;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;

/**
 * Draws one request: a row for each stage, the sides beneath each other. First all of it until soon
 * after its first token, since the rest of an answer would leave no room for what is before; then
 * the transfer alone.
 */
final class TimelinePicture {
  private static final List<String> SIDES = List.of("client", "proxy", "decoder", "prefiller");
  private static final int WIDTH = 1080;
  private static final int LEFT = 230;
  private static final int RIGHT = 120;
  private static final int HEAD = 58;
  private static final int ABOVE = 34;
  private static final int ROW = 22;
  private static final int TICKS = 8;

  private final Svg svg;
  private final Instant origin;
  private final Instant from;
  private final double all;

  private TimelinePicture(Svg svg, Instant origin, Instant from, Instant to) {
    this.svg = svg;
    this.origin = origin;
    this.from = from;
    this.all = Math.max(1e-3, millis(from, to));
  }

  /**
   * Draws.
   *
   * @param bars at least one; of which the earliest is at 0 ms
   * @param first when the first token was there
   */
  static String draw(String title, String subtitle, List<Bar> bars, Instant first) {
    List<Bar> rows = new ArrayList<>(bars);
    rows.sort(
        Comparator.comparingInt((Bar bar) -> SIDES.indexOf(bar.side()))
            .thenComparing(Bar::start)
            .thenComparing(Bar::end, Comparator.reverseOrder()));
    Instant begin = rows.stream().map(Bar::start).min(Comparator.naturalOrder()).orElseThrow();
    List<Bar> connector =
        rows.stream()
            .filter(bar -> bar.side().equals("decoder") || bar.side().equals("prefiller"))
            .filter(bar -> !bar.stage().equals("prefill"))
            .toList();
    int heads = connector.isEmpty() ? 1 : 2;
    int height = HEAD + heads * (ABOVE + 16) + (rows.size() + connector.size()) * ROW;
    Svg svg = new Svg(WIDTH, height, title);
    svg.heading(10, 22, 15, title);
    svg.text(10, 40, 10, "start", Svg.FAINT, subtitle);
    Instant soon = first.plusNanos(Duration.between(begin, first).toNanos() / 6);
    new TimelinePicture(svg, begin, begin, soon)
        .rows("from sending it until soon after the first token", rows, HEAD);
    if (!connector.isEmpty()) {
      Instant start =
          connector.stream().map(Bar::start).min(Comparator.naturalOrder()).orElse(begin);
      Instant end = connector.stream().map(Bar::end).max(Comparator.naturalOrder()).orElse(first);
      new TimelinePicture(svg, begin, start, end)
          .rows("the transfer alone", connector, HEAD + ABOVE + 16 + rows.size() * ROW);
    }
    return svg.end();
  }

  private void rows(String heading, List<Bar> rows, int at) {
    int top = at + ABOVE;
    int bottom = top + rows.size() * ROW;
    svg.heading(10, at + 10, 11, heading);
    double offset = millis(origin, from);
    double step = Chart.step(all * 4 / TICKS, "ms");
    for (double t = Math.ceil(offset / step) * step; t <= offset + all; t += step) {
      svg.line(across(t - offset), top - 4, across(t - offset), bottom, Svg.GRID);
      svg.text(across(t - offset), top - 9, 9, "middle", Svg.FAINT, tick(t));
    }
    String before = "";
    for (int i = 0; i < rows.size(); i++) {
      Bar bar = rows.get(i);
      double y = top + i * ROW;
      if (!bar.side().equals(before)) {
        svg.line(10, y - 1, WIDTH - 10, y - 1, "#c8cdd3");
        svg.heading(10, y + 15, 12, bar.side());
        before = bar.side();
      }
      row(bar, y);
    }
  }

  private void row(Bar bar, double y) {
    svg.text(LEFT - 10, y + 14, 11, "end", Svg.INK, bar.stage());
    double begins = millis(from, bar.start());
    boolean goesOn = begins + bar.millis() > all + 1e-3;
    double x = across(Math.clamp(begins, 0, all));
    double end = goesOn ? WIDTH - 14 : Math.max(x + 2, across(begins + bar.millis()));
    String colour = Svg.COLOURS.get(Math.max(0, SIDES.indexOf(bar.side())));
    svg.box(x, y + 3, end - x, ROW - 8, colour, "none");
    String told =
        Units.millis(bar.millis()) + (bar.outcome().isEmpty() ? "" : ", " + bar.outcome());
    if (goesOn) {
      svg.text(end - 5, y + 14, 10, "end", "#ffffff", told + " →");
    } else {
      svg.text(end + 5, y + 14, 10, "start", Svg.INK, told);
    }
  }

  private double across(double millis) {
    return LEFT + (WIDTH - LEFT - RIGHT) * millis / all;
  }

  private static String tick(double millis) {
    return String.format(Locale.ROOT, millis == Math.rint(millis) ? "%.0f ms" : "%.2f ms", millis);
  }

  private static double millis(Instant from, Instant to) {
    return Duration.between(from, to).toNanos() / 1e6;
  }
}
