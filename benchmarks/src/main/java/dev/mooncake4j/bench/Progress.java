package dev.mooncake4j.bench;

/**
 * A line on standard error that the next one overwrites; only a terminal sees it, which bench.sh
 * says.
 */
final class Progress {
  private static final boolean SHOWN = Boolean.getBoolean("bench.progress");

  private Progress() {}

  static void show(String text) {
    if (SHOWN) {
      System.err.print("\r\033[Kbench: " + text);
    }
  }

  static void clear() {
    if (SHOWN) {
      System.err.print("\r\033[K");
    }
  }
}
