package dev.mooncake4j.examples.pictures;

import java.util.List;

/** One line of a chart. */
record Line(String legend, List<Point> points) {

  /** A value at a time in seconds; not a number where there is a gap. */
  record Point(double seconds, double value) {}
}
