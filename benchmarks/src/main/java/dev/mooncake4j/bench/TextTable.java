package dev.mooncake4j.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** A table for people to read: the first column to the left, the others to the right. */
final class TextTable {
  private final List<List<String>> rows = new ArrayList<>();

  TextTable(String... titles) {
    rows.add(List.of(titles));
  }

  /**
   * Adds a row.
   *
   * @throws IllegalArgumentException if it has another number of cells than the titles
   */
  void add(List<String> cells) {
    if (cells.size() != rows.getFirst().size()) {
      throw new IllegalArgumentException(
          "cells=" + cells.size() + ", columns=" + rows.getFirst().size());
    }
    rows.add(List.copyOf(cells));
  }

  /** A number with three digits that mean something, or {@code -} for none. */
  static String number(@Nullable Double value) {
    if (value == null) {
      return "-";
    }
    double size = Math.abs(value);
    String form = size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : size >= 1 ? "%.2f" : "%.3f";
    return String.format(Locale.ROOT, form, value);
  }

  @Override
  public String toString() {
    int columns = rows.getFirst().size();
    int[] widths = new int[columns];
    for (List<String> row : rows) {
      for (int i = 0; i < columns; i++) {
        widths[i] = Math.max(widths[i], row.get(i).length());
      }
    }
    StringBuilder text = new StringBuilder();
    for (List<String> row : rows) {
      StringBuilder line = new StringBuilder();
      for (int i = 0; i < columns; i++) {
        String cell = row.get(i);
        String gap = " ".repeat(widths[i] - cell.length());
        line.append(i == 0 ? cell + gap : "  " + gap + cell);
      }
      text.append(line.toString().stripTrailing()).append('\n');
    }
    return text.toString();
  }
}
