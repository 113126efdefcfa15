package dev.mooncake4j.bench.measure;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A peer as a child process that is told JSON lines, {@code {"cmd": name, ...}}, and answers with
 * JSON lines, {@code {"event": name, ...}}; {@link Commands} is its side of a peer in Java. It ends
 * with its standard input, and so with the driver, however that ends. One thread drives it.
 */
public final class ChildProcess implements AutoCloseable {
  /** The reader's own event, when there is nothing more to read. */
  private static final String ENDED = "end";

  private static final Duration END_PATIENCE = Duration.ofSeconds(10);
  private static final int LOG_LINES_SHOWN = 30;

  private final String name;
  private final Process process;
  private final Path log;
  private final OutputStream in;
  private final BlockingQueue<JsonNode> events = new LinkedBlockingQueue<>();

  private ChildProcess(String name, Process process, Path log) {
    this.name = name;
    this.process = process;
    this.log = log;
    this.in = process.getOutputStream();
    Thread.ofPlatform().daemon().name(name + "-events").start(this::read);
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
  }

  /** A peer did not do what it was asked to. */
  public static final class PeerFailure extends IllegalStateException {
    private static final long serialVersionUID = 1L;

    /** Says what. */
    public PeerFailure(String message) {
      super(message);
    }
  }

  /**
   * Starts one; {@link #await} of its first event tells when it can be used.
   *
   * @param environment variables beside this process's
   * @param logs where its standard error goes, in a file of its name
   */
  public static ChildProcess start(
      String name, List<String> command, Map<String, String> environment, Path logs) {
    Path log = logs.resolve(name + ".log");
    try {
      Files.createDirectories(logs);
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.environment().putAll(environment);
      builder.redirectError(log.toFile());
      return new ChildProcess(name, builder.start(), log);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start " + command.getFirst(), e);
    }
  }

  /** The command of a Java peer with this process's Java and class path. */
  public static List<String> java(List<String> options, Class<?> main, List<String> arguments) {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + File.separator + "bin" + File.separator + "java");
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(options);
    command.addAll(List.of("-cp", System.getProperty("java.class.path", "."), main.getName()));
    command.addAll(arguments);
    return command;
  }

  private void read() {
    try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        if (line.startsWith("{")) { // and not of a native library that prints
          events.add(JsonMapper.shared().readTree(line));
        }
      }
    } catch (IOException | JacksonException e) {
      // The pipe of a killed process, or half a line of it: its end is what counts.
    }
    addEnd();
  }

  private void addEnd() {
    events.add(JsonMapper.shared().createObjectNode().put("event", ENDED));
  }

  /**
   * Sends a command.
   *
   * @throws PeerFailure if the peer has ended
   */
  public void tell(String command, Map<String, ?> fields) {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("cmd", command);
    message.putAll(fields);
    byte[] line =
        (JsonMapper.shared().writeValueAsString(message) + "\n").getBytes(StandardCharsets.UTF_8);
    try {
      in.write(line);
      in.flush();
    } catch (IOException e) {
      throw failure("takes no command=" + command + ": " + e.getMessage());
    }
  }

  /**
   * Sends a command and waits for the event that answers it.
   *
   * @throws PeerFailure as {@link #await} does
   */
  public JsonNode ask(String command, Map<String, ?> fields, String event, Duration patience)
      throws InterruptedException {
    tell(command, fields);
    return await(event, patience);
  }

  /**
   * Waits for the next event, which must be this one.
   *
   * @throws PeerFailure if it is another, a command has failed, the peer has ended, or nothing
   *     comes in time
   */
  public JsonNode await(String event, Duration patience) throws InterruptedException {
    JsonNode next = events.poll(patience.toMillis(), TimeUnit.MILLISECONDS);
    if (next == null) {
      throw failure("no event=" + event + " in " + patience.toSeconds() + " s");
    }
    String told = next.path("event").asString("");
    if (told.equals(ENDED)) {
      addEnd(); // for those who ask again
      boolean over = process.waitFor(END_PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
      throw failure("it has ended" + (over ? ", code=" + process.exitValue() : ""));
    }
    if (told.equals(Commands.FAILED)) {
      throw failure(next.path("error").asString(""));
    }
    if (!told.equals(event)) {
      throw failure("told " + next + " and not event=" + event);
    }
    return next;
  }

  /** Processor time of its threads so far, in steps of some milliseconds. */
  public double processorSeconds() {
    return process.toHandle().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
  }

  /** Its memory that lies in main memory now, or -1 where the system does not tell. */
  public long residentBytes() {
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

  private PeerFailure failure(String what) {
    return new PeerFailure(name + ": " + what + "; the end of its log " + log + ":\n" + logEnd());
  }

  private String logEnd() {
    try (var lines = Files.lines(log)) {
      // Without the stacks, among which what a library says would be lost.
      List<String> all = lines.filter(line -> !line.startsWith("\t")).toList();
      return String.join("\n", all.subList(Math.max(0, all.size() - LOG_LINES_SHOWN), all.size()));
    } catch (IOException | UncheckedIOException e) {
      return "(it cannot be read: " + e.getMessage() + ")";
    }
  }

  /** Lets it end by itself for a while, and then kills it. */
  @Override
  public void close() {
    try {
      in.write("{\"cmd\":\"quit\"}\n".getBytes(StandardCharsets.UTF_8));
      in.close();
      if (process.waitFor(END_PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
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
