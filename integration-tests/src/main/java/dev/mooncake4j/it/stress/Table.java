package dev.mooncake4j.it.stress;

import java.util.ArrayList;
import java.util.List;

/** The table at the end, and whether all in it is as it has to be. */
final class Table {
  private final List<String> lines = new ArrayList<>();
  private final List<String> wrong = new ArrayList<>();

  void row(String name, long value) {
    lines.add(String.format("  %-48s %,15d", name, value));
  }

  void mustBeZero(String name, long value) {
    lines.add(String.format("  %-48s %,15d  (must be 0)", name, value));
    if (value != 0) {
      wrong.add(name + " " + value);
    }
  }

  /** Something else that makes the run fail. */
  void wrong(String text) {
    wrong.add(text);
  }

  List<String> lines() {
    return lines;
  }

  /** What is not as it has to be. */
  List<String> wrong() {
    return wrong;
  }
}
