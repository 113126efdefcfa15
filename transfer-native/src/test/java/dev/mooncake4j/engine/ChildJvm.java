package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Another JVM with the tests' class path. It is told one thing a line on its input, and tells one
 * thing a line on its output; what it logs goes to this process.
 */
public final class ChildJvm implements AutoCloseable {
  private static final int BOUND_SECONDS = 60;

  private final Process process;
  private final BufferedReader output;
  private final BufferedWriter input;

  private ChildJvm(Process process) {
    this.process = process;
    this.output = process.inputReader(StandardCharsets.UTF_8);
    this.input = process.outputWriter(StandardCharsets.UTF_8);
  }

  /** Starts a JVM. */
  public static ChildJvm start(
      Map<String, String> environment, List<String> options, Class<?> main, String... arguments)
      throws IOException {
    return new ChildJvm(
        builder(environment, options, main, arguments)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start());
  }

  /** Runs a JVM to its end; what it has written, on both streams. */
  public static String run(
      Map<String, String> environment, List<String> options, Class<?> main, String... arguments)
      throws IOException, InterruptedException {
    Path log = Files.createTempFile("m4j-child", ".log");
    try {
      Process process =
          builder(environment, options, main, arguments)
              .redirectErrorStream(true)
              .redirectOutput(log.toFile())
              .start();
      boolean ended = process.waitFor(BOUND_SECONDS, TimeUnit.SECONDS);
      process.destroyForcibly();
      String text = Files.readString(log);
      assertThat(ended).as("ends in time: " + text).isTrue();
      assertThat(process.exitValue()).as(text).isZero();
      return text;
    } finally {
      Files.delete(log);
    }
  }

  private static ProcessBuilder builder(
      Map<String, String> environment, List<String> options, Class<?> main, String... arguments) {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + File.separator + "bin" + File.separator + "java");
    command.add("-Xmx256m");
    command.addAll(options);
    command.add("-cp");
    command.add(
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")));
    command.add(main.getName());
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().putAll(environment);
    return builder;
  }

  /** The next line that it tells. */
  public String readLine() throws IOException {
    String line = output.readLine();
    if (line == null) {
      throw new IOException("the child JVM has ended: see its log");
    }
    return line;
  }

  /** Tells it something. */
  public void writeLine(String line) throws IOException {
    input.write(line);
    input.newLine();
    input.flush();
  }

  /** Its process. */
  public Process process() {
    return process;
  }

  /** Kills it at once. */
  public void kill() {
    process.destroyForcibly().onExit().orTimeout(BOUND_SECONDS, TimeUnit.SECONDS).join();
  }

  @Override
  public void close() {
    kill();
  }
}
