package dev.mooncake4j.examples.demo;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * One of the demo's servers as the demo sees it: a child JVM, its commands and its events.
 *
 * <p>Its end is an event like any other, of its own and of those who {@link #watch} it: whoever
 * waits for one server is told at once when the other, without which nothing will come, has died.
 */
final class DemoProcess implements AutoCloseable {
  private final String name;
  private final Process process;
  private final Path log;
  private final Writer in;
  private final BlockingQueue<JsonNode> events = new LinkedBlockingQueue<>();
  private final Thread reader;
  private final CompletableFuture<String> ended;

  private DemoProcess(String name, Process process, Path log) {
    this.name = name;
    this.process = process;
    this.log = log;
    this.in =
        new BufferedWriter(
            new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
    this.reader = Thread.ofPlatform().name("demo-" + name).daemon().start(this::read);
    this.ended = process.onExit().thenApplyAsync(this::end);
    CompletableFuture<Void> _ = ended.thenAccept(why -> events.add(gone(why + tail())));
  }

  static DemoProcess start(String name, String role, String engineId, Path folder)
      throws IOException {
    List<String> command = new ArrayList<>();
    command.add(ProcessHandle.current().info().command().orElse("java"));
    command.add("--enable-native-access=ALL-UNNAMED");
    command.add("-Xmx256m");
    command.add("-Dorg.slf4j.simpleLogger.showDateTime=true");
    command.add("-cp");
    command.add(System.getProperty("java.class.path"));
    command.add(DemoNode.class.getName());
    command.add(role);
    command.add(engineId);
    return start(name, command, folder);
  }

  /** Any program that speaks as a {@link DemoNode} does. */
  static DemoProcess start(String name, List<String> command, Path folder) throws IOException {
    Path log = folder.resolve(name + ".log");
    Process process = new ProcessBuilder(command).redirectError(log.toFile()).start();
    return new DemoProcess(name, process, log);
  }

  private void read() {
    try (BufferedReader reader = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        if (line.startsWith("{")) {
          events.add(JsonMapper.shared().readTree(line));
        }
      }
    } catch (IOException e) {
      // Its pipe broke: its end is told by the process itself.
      return;
    }
  }

  /** What it wrote last comes before its end: it may be the reason. */
  private String end(Process ended) {
    try {
      reader.join(Duration.ofSeconds(2));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    int code = ended.exitValue();
    return name
        + " (pid "
        + ended.pid()
        + ") ended with exit code "
        + code
        + (code > 128 ? ", by signal " + (code - 128) : "");
  }

  /** From now on the end of the other server is an event of this one too. */
  void watch(DemoProcess other) {
    CompletableFuture<Void> _ = other.ended.thenAccept(why -> events.add(gone(why + other.tail())));
  }

  private static JsonNode gone(String reason) {
    return JsonMapper.shared().valueToTree(Map.of("event", "gone", "reason", reason));
  }

  /** Gives it a command; one that cannot be given shows in its events, which say why. */
  void send(Map<String, ?> command) {
    try {
      in.write(JsonMapper.shared().writeValueAsString(command));
      in.write('\n');
      in.flush();
    } catch (IOException e) {
      // A killed process closes its input a moment before it has ended, which is told by itself.
      if (!endsSoon()) {
        throw new DemoFailure(name + " takes no commands: " + e + tail());
      }
    }
  }

  private boolean endsSoon() {
    try {
      return process.waitFor(2, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** The next event; one that says the server is gone or failed ends the demo. */
  JsonNode next(long seconds) throws InterruptedException {
    JsonNode event = events.poll(seconds, TimeUnit.SECONDS);
    if (event == null) {
      throw new DemoFailure(name + " said nothing for " + seconds + " s" + tail());
    }
    String kind = event.get("event").asString();
    if (kind.equals("gone")) {
      throw new DemoFailure(event.get("reason").asString());
    }
    if (kind.equals("fatal")) {
      throw new DemoFailure(name + " failed: " + event.get("reason").asString() + tail());
    }
    return event;
  }

  private String tail() {
    try {
      List<String> lines = Files.readAllLines(log);
      List<String> last = lines.subList(Math.max(0, lines.size() - 15), lines.size());
      return "\nits log, " + log + ", ends:\n  " + String.join("\n  ", last);
    } catch (IOException e) {
      return "\nits log, " + log + ", cannot be read: " + e;
    }
  }

  long pid() {
    return process.pid();
  }

  @Override
  public void close() {
    try {
      send(Map.of("cmd", "quit"));
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (DemoFailure e) {
      process.destroyForcibly();
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }

  /** What ends the demo with a reason. */
  static final class DemoFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    DemoFailure(String reason) {
      super(reason);
    }
  }
}
