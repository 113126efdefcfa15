package dev.mooncake4j.examples.jlama.convert;

import java.io.PrintStream;

/** Told how far a conversion is. */
interface Progress {
  /** Shows nothing. */
  Progress NONE = (done, total) -> {};

  void at(long done, long total);

  /** One line that overwrites itself, for a terminal. */
  static Progress on(PrintStream terminal) {
    return new Progress() {
      private long shown = -1;

      @Override
      public void at(long done, long total) {
        long percent = total == 0 ? 100 : done * 100 / total;
        if (percent != shown) {
          shown = percent;
          terminal.printf("\r\033[Kmodel: converting %d %%", percent);
          terminal.flush();
        }
        if (done == total) {
          terminal.print("\r\033[K");
          terminal.flush();
        }
      }
    };
  }
}
