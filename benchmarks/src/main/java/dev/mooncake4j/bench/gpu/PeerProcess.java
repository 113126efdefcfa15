package dev.mooncake4j.bench.gpu;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A {@link Peer} in a JVM of its own. One thread at a time. */
final class PeerProcess implements AutoCloseable {
  private static final String END = "";

  private final String name;
  private final Process process;
  private final BufferedWriter in;
  private final Path log;
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

  private PeerProcess(String name, Process process, Path log) {
    this.name = name;
    this.process = process;
    this.log = log;
    this.in =
        new BufferedWriter(
            new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
    Thread.ofPlatform().daemon().name("from-" + name).start(this::read);
  }

  /** What a peer's JVM is started with. */
  record Setting(List<String> jvmArguments, Map<String, String> environment, Path logs) {}

  /** A peer did not do what it was asked to. */
  static final class PeerFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    PeerFailure(String message) {
      super(message);
    }
  }

  /** Starts one; it answers once by itself when it is ready. */
  static PeerProcess start(Setting setting, String name, String role, String... arguments)
      throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("--enable-native-access=ALL-UNNAMED");
    command.add("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    command.addAll(setting.jvmArguments());
    command.add("-cp");
    command.add(System.getProperty("java.class.path"));
    command.add(Peer.class.getName());
    command.add(role);
    command.addAll(List.of(arguments));
    Path log = setting.logs().resolve(name + ".log");
    Files.createDirectories(setting.logs());
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(log.toFile());
    builder.environment().putAll(setting.environment());
    return new PeerProcess(name, builder.start(), log);
  }

  private void read() {
    try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        lines.add(line);
      }
    } catch (IOException e) {
      System.err.println(name + ": " + e);
    }
    lines.add(END);
  }

  /** Sends a command; {@link #answer} has what comes of it. */
  void tell(String cmd, Map<String, ?> fields) {
    Map<String, Object> command = new LinkedHashMap<>(fields);
    command.put("cmd", cmd);
    try {
      in.write(JsonMapper.shared().writeValueAsString(command));
      in.newLine();
      in.flush();
    } catch (IOException e) {
      throw failure("takes no command: " + e.getMessage());
    }
  }

  /** Its next answer. */
  JsonNode answer(long seconds) throws InterruptedException {
    while (true) {
      @Nullable String line = lines.poll(seconds, TimeUnit.SECONDS);
      if (line == null) {
        throw failure("no answer in " + seconds + " s");
      }
      if (line.equals(END)) {
        lines.add(END);
        process.waitFor(10, TimeUnit.SECONDS);
        throw failure("it has ended" + (process.isAlive() ? "" : ", code=" + process.exitValue()));
      }
      if (!line.startsWith("{")) {
        continue; // a library that prints
      }
      JsonNode answer = JsonMapper.shared().readTree(line);
      if (answer.has("error")) {
        throw failure(answer.get("error").asString());
      }
      return answer;
    }
  }

  JsonNode ask(String cmd, Map<String, ?> fields) throws InterruptedException {
    tell(cmd, fields);
    return answer(120);
  }

  private PeerFailure failure(String what) {
    return new PeerFailure(name + ": " + what + "; the end of its log " + log + ":\n" + tail());
  }

  private String tail() {
    try {
      // Without the stacks, among which what a library says would be lost.
      List<String> all =
          Files.readAllLines(log).stream().filter(line -> !line.startsWith("\t")).toList();
      return String.join("\n", all.subList(Math.max(0, all.size() - 12), all.size()));
    } catch (IOException e) {
      return "(" + e + ")";
    }
  }

  @Override
  public void close() {
    try {
      if (process.isAlive()) {
        tell("quit", Map.of());
      }
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (PeerFailure e) {
      process.destroyForcibly();
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
