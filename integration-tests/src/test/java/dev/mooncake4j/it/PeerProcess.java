package dev.mooncake4j.it;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A child process that takes commands and tells events as JSON lines: a {@link PeerMain} in a JVM
 * of its own, or any other program that speaks the same lines.
 *
 * <p>Its working directory is a fresh folder, removed on {@link #close()} together with the
 * process, however that has fared. Waiting is bounded; what fails names the peer, what it last
 * told, and the end of its standard error. Thread-safe.
 */
final class PeerProcess implements AutoCloseable {
  /** Generous: two cores may be shared with others. */
  static final Duration START = Duration.ofSeconds(60);

  /** For what takes milliseconds. */
  static final Duration SOON = Duration.ofSeconds(30);

  private static final int ERROR_LINES_SHOWN = 40;
  private static final JsonMapper JSON = JsonMapper.builder().build();

  private final String name;
  private final Process process;
  private final Path folder;
  private final OutputStream commands;
  private final Thread errorReader;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final List<JsonNode> pending = new ArrayList<>();
  private final List<String> last = new ArrayList<>();
  private final List<String> errors = new ArrayList<>();
  private boolean ended;
  private volatile @Nullable JsonNode ready;

  private PeerProcess(String name, Process process, Path folder) {
    this.name = name;
    this.process = process;
    this.folder = folder;
    this.commands = process.getOutputStream();
    Thread.ofPlatform().daemon().name(name + "-events").start(this::readEvents);
    errorReader = Thread.ofPlatform().daemon().name(name + "-stderr").start(this::readErrors);
  }

  /** Collects what a child is started with. */
  static final class Builder {
    private final String name;
    private final Map<String, String> options = new LinkedHashMap<>();
    private final Map<String, String> environment = new LinkedHashMap<>();
    private final List<String> jvmArguments = new ArrayList<>();
    private boolean quickStart = true;

    private Builder(String name, String role) {
      this.name = name;
      options.put("--role", role);
    }

    /** An option of {@link PeerOptions}; the last value counts. */
    Builder option(String option, Object value) {
      options.put(option, String.valueOf(value));
      return this;
    }

    /** Options as names and values in turn. */
    Builder options(Object... namesAndValues) {
      for (int i = 0; i < namesAndValues.length; i += 2) {
        option(String.valueOf(namesAndValues[i]), namesAndValues[i + 1]);
      }
      return this;
    }

    Builder environment(String variable, String value) {
      environment.put(variable, value);
      return this;
    }

    Builder jvmArgument(String argument) {
      jvmArguments.add(argument);
      return this;
    }

    /**
     * For a peer that has much to compute: with the optimizing compiler, which is slow to start.
     */
    Builder optimized() {
      quickStart = false;
      return this;
    }

    /** Starts it; it is not ready yet. */
    PeerProcess start() {
      List<String> command = new ArrayList<>();
      command.add(javaExecutable());
      command.add("--enable-native-access=ALL-UNNAMED");
      command.add("-Xmx256m");
      command.add("-XX:+UseSerialGC");
      command.add("-XX:-CreateCoredumpOnCrash");
      if (quickStart) {
        command.add("-XX:TieredStopAtLevel=1");
      }
      command.addAll(jvmArguments);
      command.add("-cp");
      command.add(classPath());
      command.add(PeerMain.class.getName());
      options.forEach(
          (option, value) -> {
            command.add(option);
            command.add(value);
          });
      return PeerProcess.start(name, command, environment);
    }

    /** Starts it and waits until it is ready. */
    PeerProcess startReady() {
      PeerProcess peer = start();
      try {
        peer.awaitReady();
      } catch (RuntimeException | Error e) {
        peer.close();
        throw e;
      }
      return peer;
    }
  }

  /** A prefiller with its bootstrap server on a free port. */
  static Builder prefiller(String name) {
    return new Builder(name, "kv_producer").option("--bootstrap-port", 0);
  }

  /** A decoder. */
  static Builder decoder(String name) {
    return new Builder(name, "kv_consumer");
  }

  /** A peer that is both, with its bootstrap server on a free port. */
  static Builder both(String name) {
    return new Builder(name, "kv_both").option("--bootstrap-port", 0);
  }

  /** Starts any program that speaks the same lines, or none at all. */
  static PeerProcess start(String name, List<String> command, Map<String, String> environment) {
    try {
      Path folder = Files.createTempDirectory("peer-" + name);
      ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
      builder.environment().putAll(environment);
      return new PeerProcess(name, builder.start(), folder);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start " + command.getFirst(), e);
    }
  }

  static String javaExecutable() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  /** The class path of these tests, also where they run behind a manifest alone. */
  static String classPath() {
    return System.getProperty(
        "surefire.test.class.path", System.getProperty("java.class.path", ""));
  }

  private void readEvents() {
    try (BufferedReader in = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        take(line);
      }
    } catch (IOException e) {
      // The pipe of a killed process: its end is what counts.
    }
    lock.lock();
    try {
      ended = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private void take(String line) {
    JsonNode event;
    try {
      event = JSON.readTree(line);
    } catch (JacksonException e) {
      return; // Half a line of a killed process, or chatter.
    }
    lock.lock();
    try {
      pending.add(event);
      last.add(line.length() > 300 ? line.substring(0, 300) + "..." : line);
      if (last.size() > 5) {
        last.removeFirst();
      }
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private void readErrors() {
    try (BufferedReader in = process.errorReader(StandardCharsets.UTF_8)) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        lock.lock();
        try {
          errors.add(line);
        } finally {
          lock.unlock();
        }
      }
    } catch (IOException e) {
      // As above.
    }
  }

  /** Waits for {@code ready}; may be asked again. */
  JsonNode awaitReady() {
    JsonNode known = ready;
    if (known == null) {
      known = await(START, "ready");
      ready = known;
    }
    return known;
  }

  /** Forgets the events that nobody has waited for. */
  void forgetEvents() {
    lock.lock();
    try {
      pending.clear();
    } finally {
      lock.unlock();
    }
  }

  String engineId() {
    return awaitReady().path("engine_id").asString();
  }

  String bootstrap() {
    return awaitReady().path("bootstrap").asString();
  }

  int bootstrapPort() {
    return java.net.URI.create(bootstrap()).getPort();
  }

  /** Sends a command, given as names and values in turn. */
  void send(Object... namesAndValues) {
    Map<String, Object> command = new LinkedHashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      command.put(String.valueOf(namesAndValues[i]), namesAndValues[i + 1]);
    }
    send(command);
  }

  /** Sends a command. */
  void send(Map<String, Object> command) {
    byte[] line = (JSON.writeValueAsString(command) + "\n").getBytes(StandardCharsets.UTF_8);
    try {
      synchronized (commands) {
        commands.write(line);
        commands.flush();
      }
    } catch (IOException e) {
      throw new AssertionError(describe("takes no commands"), e);
    }
  }

  /**
   * The next event of that name whose fields have the given values (names and values in turn);
   * others are kept for later calls.
   *
   * @throws AssertionError if it has not come in time, or the process has ended without it
   */
  JsonNode await(Duration timeout, String event, Object... fields) {
    long left = timeout.toNanos();
    lock.lock();
    try {
      while (true) {
        JsonNode found = remove(event, fields);
        if (found != null) {
          return found;
        }
        if (ended) {
          throw new AssertionError(describe("ended without event=" + event + show(fields)));
        }
        if (left <= 0) {
          throw new AssertionError(
              describe("told no event=" + event + show(fields) + " within " + timeout));
        }
        left = changed.awaitNanos(left);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted", e);
    } finally {
      lock.unlock();
    }
  }

  /** As above, within {@link #SOON}. */
  JsonNode await(String event, Object... fields) {
    return await(SOON, event, fields);
  }

  /** Whether such an event has come already; it is kept. */
  boolean has(String event, Object... fields) {
    lock.lock();
    try {
      return pending.stream().anyMatch(e -> matches(e, event, fields));
    } finally {
      lock.unlock();
    }
  }

  private @Nullable JsonNode remove(String event, Object... fields) {
    for (Iterator<JsonNode> i = pending.iterator(); i.hasNext(); ) {
      JsonNode candidate = i.next();
      if (matches(candidate, event, fields)) {
        i.remove();
        return candidate;
      }
    }
    return null;
  }

  private static boolean matches(JsonNode candidate, String event, Object... fields) {
    if (!candidate.path("event").asString("").equals(event)) {
      return false;
    }
    for (int i = 0; i < fields.length; i += 2) {
      JsonNode value = candidate.path(String.valueOf(fields[i]));
      if (!value.asString("").equals(String.valueOf(fields[i + 1]))) {
        return false;
      }
    }
    return true;
  }

  /** Sends a command and waits for the event that answers it. */
  JsonNode ask(String answer, Object... command) {
    send(command);
    return await(answer);
  }

  /** The peer's figures. */
  JsonNode state() {
    return ask("state", "cmd", "state");
  }

  String checksum(int... blocks) {
    return ask("checksum", "cmd", "checksum", "block_ids", blocks).path("sha256").asString();
  }

  /** How many (layer, block) pairs of these blocks hold a byte that is not zero. */
  int nonzero(int... blocks) {
    return ask("nonzero", "cmd", "nonzero", "block_ids", blocks).path("n").asInt();
  }

  /** The same by each block's first word alone. */
  int touched(int... blocks) {
    return ask("touched", "cmd", "touched", "block_ids", blocks).path("n").asInt();
  }

  void zero() {
    ask("zeroed", "cmd", "zero");
  }

  long pid() {
    return process.pid();
  }

  /** SIGKILL. */
  void kill() {
    process.destroyForcibly();
    awaitExit();
  }

  /** SIGTERM; returns at once. */
  void terminate() {
    process.destroy();
  }

  /** Another signal, by its name. */
  void signal(String signal) {
    try {
      int code =
          new ProcessBuilder("kill", "-" + signal, String.valueOf(pid()))
              .inheritIO()
              .start()
              .waitFor();
      if (code != 0) {
        throw new AssertionError(describe("takes no signal " + signal));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted", e);
    }
  }

  /** Tells it to quit and waits for its end; returns the exit code. */
  int quit() {
    send("cmd", "quit");
    return awaitExit();
  }

  /** Waits for its end; returns the exit code. */
  int awaitExit() {
    try {
      if (!process.waitFor(SOON.toSeconds(), TimeUnit.SECONDS)) {
        throw new AssertionError(describe("has not ended within " + SOON));
      }
      errorReader.join(SOON);
      return process.exitValue();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted", e);
    }
  }

  /** Its standard error so far. */
  String errorText() {
    lock.lock();
    try {
      return String.join("\n", errors);
    } finally {
      lock.unlock();
    }
  }

  /** Files that it has left in its working directory: hs_err files, core dumps. */
  List<String> leftFiles() {
    try (Stream<Path> list = Files.list(folder)) {
      return list.map(p -> p.getFileName().toString()).sorted().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private String describe(String what) {
    lock.lock();
    try {
      List<String> tail =
          errors.subList(Math.max(0, errors.size() - ERROR_LINES_SHOWN), errors.size());
      return "peer="
          + name
          + " pid="
          + process.pid()
          + " "
          + (process.isAlive() ? "alive" : "exit_code=" + process.exitValue())
          + ": "
          + what
          + "\nlast events: "
          + String.join("\n  ", last)
          + "\nstandard error:\n  "
          + String.join("\n  ", tail);
    } finally {
      lock.unlock();
    }
  }

  private static String show(Object... fields) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < fields.length; i += 2) {
      text.append(' ').append(fields[i]).append('=').append(fields[i + 1]);
    }
    return text.toString();
  }

  /** Kills it if it lives and removes its folder; idempotent. */
  @Override
  public void close() {
    process.destroyForcibly();
    awaitExit();
    try (Stream<Path> files = Files.walk(folder)) {
      files.sorted(java.util.Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
    } catch (IOException | UncheckedIOException e) {
      // Removed already.
    }
  }

  @Override
  public String toString() {
    return name + "[pid=" + process.pid() + "]";
  }
}
