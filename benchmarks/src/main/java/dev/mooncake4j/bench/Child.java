package dev.mooncake4j.bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A peer as a child process that is told JSON lines and answers with JSON lines. It ends with its
 * standard input, and so with the driver, however that ends. One thread drives it.
 */
final class Child implements AutoCloseable {
  static final JsonMapper JSON = JsonMapper.builder().build();

  /** Told by the reader when there is nothing more to read. */
  private static final JsonNode END = JSON.createObjectNode().put("event", "end");

  private static final int LOG_SHOWN = 3000;

  private final String name;
  private final Process process;
  private final Path log;
  private final OutputStream in;
  private final BlockingQueue<JsonNode> events = new LinkedBlockingQueue<>();

  private Child(String name, Process process, Path log) {
    this.name = name;
    this.process = process;
    this.log = log;
    this.in = process.getOutputStream();
    Thread.ofPlatform().daemon().name(name + "-events").start(this::read);
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
  }

  /**
   * Starts one; {@link #await} of its first event tells when it can be used.
   *
   * @param environment variables beside this process's
   * @param logs where its standard error goes, in a file of its name
   */
  static Child start(
      String name, List<String> command, Map<String, String> environment, Path logs) {
    Path log = logs.resolve(name + ".log");
    try {
      Files.createDirectories(logs);
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.environment().putAll(environment);
      builder.redirectError(log.toFile());
      return new Child(name, builder.start(), log);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start " + command.getFirst(), e);
    }
  }

  /** The command of a Java peer with this process's Java and class path. */
  static List<String> java(List<String> options, Class<?> main, List<String> arguments) {
    List<String> command = new java.util.ArrayList<>();
    command.add(System.getProperty("java.home") + File.separator + "bin" + File.separator + "java");
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(options);
    command.addAll(
        List.of("-cp", System.getProperty("java.class.path", "."), main.getCanonicalName()));
    command.addAll(arguments);
    return command;
  }

  private void read() {
    try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        events.add(JSON.readTree(line));
      }
    } catch (IOException | JacksonException e) {
      // The pipe of a killed process, or half a line of it: its end is what counts.
    }
    events.add(END);
  }

  /** Sends a command. */
  void tell(Map<String, ?> command) {
    try {
      in.write((JSON.writeValueAsString(command) + "\n").getBytes(StandardCharsets.UTF_8));
      in.flush();
    } catch (IOException e) {
      throw new UncheckedIOException(name + " takes no commands\n" + lastWords(), e);
    }
  }

  /** Sends a command and waits for the event that answers it. */
  JsonNode ask(String event, Duration patience, Map<String, ?> command)
      throws InterruptedException {
    tell(command);
    return await(event, patience);
  }

  /**
   * Waits for the next event, which must be this one.
   *
   * @throws IllegalStateException if it is another, the peer has ended, or nothing comes in time
   */
  JsonNode await(String event, Duration patience) throws InterruptedException {
    JsonNode next = events.poll(patience.toMillis(), TimeUnit.MILLISECONDS);
    if (next == null || !next.path("event").asString().equals(event)) {
      throw new IllegalStateException(
          name + " told " + next + " and no event=" + event + " in " + patience + lastWords());
    }
    return next;
  }

  /** Processor time of its threads so far, in steps of some milliseconds. */
  double processorSeconds() {
    return process.toHandle().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
  }

  /** Its memory that lies in main memory now, or -1 where the system does not tell. */
  long residentBytes() {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/" + process.pid() + "/status"))) {
        if (line.startsWith("VmRSS:")) {
          return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        }
      }
    } catch (IOException e) {
      // No such file on this system, or the process has ended.
    }
    return -1;
  }

  private String lastWords() {
    try {
      String text = Files.readString(log);
      return "; the end of " + log + ":\n" + text.substring(Math.max(0, text.length() - LOG_SHOWN));
    } catch (IOException e) {
      return "; " + log + " cannot be read: " + e.getMessage();
    }
  }

  /** Lets it end by itself for a while, and then kills it. */
  @Override
  public void close() {
    try {
      in.write("{\"cmd\":\"quit\"}\n".getBytes(StandardCharsets.UTF_8));
      in.close();
      if (process.waitFor(5, TimeUnit.SECONDS)) {
        return;
      }
    } catch (IOException e) {
      // It has ended, or takes nothing any more.
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    process.destroyForcibly();
  }
}
