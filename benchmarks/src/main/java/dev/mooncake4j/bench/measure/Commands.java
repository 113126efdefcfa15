package dev.mooncake4j.bench.measure;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A peer's side of the talk with the driver, which has a {@link ChildProcess}: commands as JSON
 * lines on standard input, events as JSON lines on what was standard output. All else that prints
 * goes to standard error. One thread at a time.
 */
public final class Commands {
  /** The event of a command that failed; its {@code error} says why. */
  static final String FAILED = "command_error";

  private final PrintStream out;

  /** What one command does. */
  public interface Handler {
    /** Does it, and tells what comes of it; what it throws is told by {@link #failed}. */
    void handle(String name, JsonNode command) throws InterruptedException;
  }

  private Commands(PrintStream out) {
    this.out = out;
  }

  /** Takes standard output over. */
  public static Commands open() {
    Commands commands = new Commands(System.out);
    System.setOut(System.err);
    return commands;
  }

  /** Hands the commands over one by one until {@code quit} or the end of standard input. */
  public void serve(Handler handler) throws InterruptedException {
    try {
      BufferedReader in =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        JsonNode command = JsonMapper.shared().readTree(line);
        String name = command.path("cmd").asString("");
        if (name.equals("quit")) {
          return;
        }
        try {
          handler.handle(name, command);
        } catch (RuntimeException e) { // the driver decides what becomes of it
          failed(e);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException("standard input", e);
    }
  }

  /** Tells that something failed, and leaves the stack on standard error. */
  public void failed(RuntimeException e) {
    e.printStackTrace();
    emit(FAILED, "error", e.toString());
  }

  /** Tells an event with its fields, given as names and values in turn. */
  public void emit(String event, @Nullable Object... namesAndValues) {
    Map<String, @Nullable Object> fields = new LinkedHashMap<>();
    fields.put("event", event);
    for (int i = 0; i < namesAndValues.length; i += 2) {
      fields.put(String.valueOf(namesAndValues[i]), namesAndValues[i + 1]);
    }
    byte[] line =
        (JsonMapper.shared().writeValueAsString(fields) + "\n").getBytes(StandardCharsets.UTF_8);
    out.write(line, 0, line.length);
    out.flush();
  }

  /** A field of block ids. */
  public static int[] ids(JsonNode command, String field) {
    JsonNode list = command.path(field);
    int[] ids = new int[list.size()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = list.get(i).intValue();
    }
    return ids;
  }
}
