package dev.mooncake4j.examples.pictures;

import java.util.List;
import java.util.Locale;

/** Draws one panel: title, axes, lines, and a legend with each line's highest value. */
final class Chart {
  private static final int LEFT = 62;
  private static final int RIGHT = 10;
  private static final int TOP = 26;
  private static final int AXIS = 18;
  private static final int LEGEND_LINE = 14;
  private static final int PER_LEGEND_LINE = 2;
  private static final int MOST_NAMED = 4;

  private final Svg svg;
  private final double x;
  private final double y;
  private final double width;
  private final double height;

  Chart(Svg svg, double x, double y, double width, double height) {
    this.svg = svg;
    this.x = x;
    this.y = y;
    this.width = width;
    this.height = height;
  }

  /** Draws; the time axis goes from 0 to so many seconds. */
  void draw(String title, String unit, List<Line> lines, double seconds) {
    svg.box(x, y, width, height, "#ffffff", Svg.GRID);
    svg.heading(x + 8, y + 17, 11, title);
    List<Line> named = lines;
    if (lines.size() > MOST_NAMED) {
      // What never moved is drawn and not named: it would take the room of what did.
      named = lines.stream().filter(line -> highest(List.of(line)) > 0).toList();
    }
    int unnamed = lines.size() - named.size();
    int entries = named.size() + (unnamed > 0 ? 1 : 0);
    int legendLines = Math.ceilDiv(Math.max(1, entries), PER_LEGEND_LINE);
    double bottom = y + height - AXIS - 4 - legendLines * LEGEND_LINE;
    double step = step(highest(lines), unit);
    double top = step * Math.max(1, Math.ceil(highest(lines) / step - 1e-9));
    for (int i = 0; i * step <= top + step / 2; i++) {
      double at = bottom - (bottom - y - TOP) * i * step / top;
      svg.line(x + LEFT, at, x + width - RIGHT, at, Svg.GRID);
      svg.text(x + LEFT - 5, at + 3, 9, "end", Svg.FAINT, Units.shown(i * step, unit));
    }
    double every = seconds > 45 ? 20 : seconds > 20 ? 10 : 5;
    for (double t = 0; t <= seconds; t += every) {
      svg.text(
          across(t, seconds),
          bottom + 12,
          9,
          "middle",
          Svg.FAINT,
          String.format(Locale.ROOT, "%.0f s", t));
    }
    for (int i = 0; i < lines.size(); i++) {
      Line line = lines.get(i);
      String colour = Svg.COLOURS.get(i % Svg.COLOURS.size());
      svg.path(path(line, bottom, top, seconds), named.contains(line) ? colour : Svg.FAINT);
      if (named.contains(line)) {
        String told = line.legend() + ", max " + Units.shown(highest(List.of(line)), unit);
        legend(named.indexOf(line), told, colour, bottom + AXIS);
      }
    }
    if (unnamed > 0) {
      legend(named.size(), unnamed + " lines, always 0", Svg.FAINT, bottom + AXIS);
    }
  }

  private void legend(int i, String told, String colour, double from) {
    double left = x + 10 + (width - 16) / PER_LEGEND_LINE * (i % PER_LEGEND_LINE);
    double at = from + LEGEND_LINE * (i / PER_LEGEND_LINE) + 9;
    svg.box(left, at - 5, 10, 3, colour, "none");
    svg.text(left + 14, at, 9, "start", Svg.INK, told);
  }

  private String path(Line line, double bottom, double top, double seconds) {
    StringBuilder path = new StringBuilder();
    boolean drawing = false;
    for (Line.Point point : line.points()) {
      if (Double.isNaN(point.value())) {
        drawing = false;
        continue;
      }
      path.append(
          String.format(
              Locale.ROOT,
              "%s%.1f %.1f ",
              drawing ? "L" : "M",
              across(point.seconds(), seconds),
              bottom - (bottom - y - TOP) * point.value() / top));
      drawing = true;
    }
    return path.isEmpty() ? "M0 0" : path.toString().strip();
  }

  private double across(double at, double seconds) {
    return x + LEFT + (width - LEFT - RIGHT) * at / seconds;
  }

  /** The greatest value, 0 where there is none. */
  private static double highest(List<Line> lines) {
    return lines.stream()
        .flatMap(line -> line.points().stream())
        .mapToDouble(Line.Point::value)
        .filter(Double::isFinite)
        .max()
        .orElse(0);
  }

  /** Between two lines of the grid: 1, 2 or 5 times a power of ten, of two for bytes. */
  static double step(double highest, String unit) {
    if (highest <= 0) {
      return 1;
    }
    double base = unit.equals("bytes") || unit.equals("binBps") ? 1024 : 1000;
    double scale = Math.pow(base, Math.floor(Math.log(highest) / Math.log(base)));
    double rest = highest / scale / 4;
    double power = Math.pow(10, Math.floor(Math.log10(rest)));
    double digit = rest / power;
    return scale * power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  }
}
