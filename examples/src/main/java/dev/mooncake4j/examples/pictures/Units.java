package dev.mooncake4j.examples.pictures;

import java.util.Locale;

/** Numbers as the axes and legends have them. */
final class Units {
  private static final String[] BINARY = {"B", "KiB", "MiB", "GiB", "TiB"};

  private Units() {}

  /**
   * A value for a person.
   *
   * @param unit Grafana's name of it; one that is not known here is shown as a bare number
   */
  static String shown(double value, String unit) {
    return switch (unit) {
      case "s" -> seconds(value);
      case "bytes" -> bytes(value);
      case "binBps" -> bytes(value) + "/s";
      case "reqps", "ops" -> plain(value) + "/s";
      default -> plain(value);
    };
  }

  /** Milliseconds, as precise as is of use. */
  static String millis(double millis) {
    int decimals = millis < 1 ? 2 : millis < 100 ? 1 : 0;
    return String.format(Locale.ROOT, "%." + decimals + "f ms", millis);
  }

  private static String seconds(double value) {
    return value == 0 ? "0 s" : value < 1 ? plain(value * 1000) + " ms" : plain(value) + " s";
  }

  private static String bytes(double value) {
    int power = 0;
    double rest = value;
    while (rest >= 1024 && power < BINARY.length - 1) {
      rest /= 1024;
      power++;
    }
    return plain(rest) + " " + BINARY[power];
  }

  private static String plain(double value) {
    if (value == Math.rint(value) && Math.abs(value) < 1e9) {
      return String.valueOf((long) value);
    }
    String text =
        String.format(Locale.ROOT, value < 1 ? "%.3f" : value < 100 ? "%.2f" : "%.0f", value);
    return text.indexOf('.') < 0 ? text : text.replaceAll("\\.?0+$", "");
  }
}
