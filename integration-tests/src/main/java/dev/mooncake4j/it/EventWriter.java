package dev.mooncake4j.it;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;

/** Writes events, one JSON object a line, each line in one write. Thread-safe. */
final class EventWriter {
  private final JsonMapper json = JsonMapper.builder().build();
  private final PrintStream out;

  EventWriter(PrintStream out) {
    this.out = out;
  }

  /** Writes an event with its fields, given as names and values in turn. */
  void emit(String event, @Nullable Object... namesAndValues) {
    Map<String, @Nullable Object> fields = new LinkedHashMap<>();
    fields.put("event", event);
    fields.put("t", System.currentTimeMillis() / 1000.0);
    for (int i = 0; i < namesAndValues.length; i += 2) {
      fields.put(String.valueOf(namesAndValues[i]), namesAndValues[i + 1]);
    }
    byte[] line = (json.writeValueAsString(fields) + "\n").getBytes(StandardCharsets.UTF_8);
    synchronized (out) {
      out.write(line, 0, line.length);
      out.flush();
    }
  }
}
