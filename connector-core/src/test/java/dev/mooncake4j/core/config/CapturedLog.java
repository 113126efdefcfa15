package dev.mooncake4j.core.config;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** What the simple logger writes to standard error while this is open. */
public final class CapturedLog implements AutoCloseable {
  private final PrintStream before = System.err;
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

  /** Begins to capture. */
  public CapturedLog() {
    System.setErr(new PrintStream(bytes, true, StandardCharsets.UTF_8));
  }

  /** The lines of a level so far. */
  public List<String> lines(String level) {
    return bytes
        .toString(StandardCharsets.UTF_8)
        .lines()
        .filter(line -> line.contains(" " + level + " "))
        .toList();
  }

  @Override
  public void close() {
    System.setErr(before);
  }
}
