package dev.mooncake4j.examples.jlama.demo;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A server in a JVM of its own, with this one's class path. It ends with this process at the
 * latest. Thread-safe.
 */
public final class ServerProcess implements AutoCloseable {
  private static final Pattern READY =
      Pattern.compile("(?:ready|listening) on (\\S+)(?: bootstrap=(\\S+))?");
  private static final long CLOSE_SECONDS = 10;
  private static final int SHOWN_LINES = 15;

  private final String name;
  private final Process process;
  private final Path log;
  private final CompletableFuture<Address> address = new CompletableFuture<>();

  /**
   * Where a server is reached.
   *
   * @param url of its endpoint
   * @param bootstrap of a prefiller's bootstrap server, else {@code null}
   */
  public record Address(URI url, @Nullable URI bootstrap) {}

  private ServerProcess(String name, Process process, Path log) {
    this.name = name;
    this.process = process;
    this.log = log;
  }

  /**
   * Starts the server; returns at once.
   *
   * @param name for messages, and of its log in the folder
   * @param program the class that is run
   * @throws IOException if no process can be started
   */
  public static ServerProcess start(
      String name, Path logs, Class<?> program, List<String> arguments) throws IOException {
    Path log = logs.resolve(name + ".log");
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "--add-modules",
            "jdk.incubator.vector",
            "--enable-native-access=ALL-UNNAMED",
            "--sun-misc-unsafe-memory-access=allow",
            "-Xmx1g",
            // Below the five seconds after which servers close a connection that nobody uses.
            "-Djdk.httpclient.keepalive.timeout=3",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-cp",
            System.getProperty("java.class.path"),
            Child.class.getName(),
            program.getName()));
    command.addAll(arguments);
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(log.toFile());
    // All of it stays on this host, whatever its other addresses are.
    builder.environment().put("VLLM_HOST_IP", "127.0.0.1");
    ServerProcess server = new ServerProcess(name, builder.start(), log);
    Thread.ofVirtual().name(name + "-output").start(server::read);
    return server;
  }

  private void read() {
    try (BufferedReader out =
        new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        Matcher matcher = READY.matcher(line);
        if (matcher.find()) {
          String bootstrap = matcher.group(2);
          address.complete(
              new Address(
                  URI.create(matcher.group(1)), bootstrap == null ? null : URI.create(bootstrap)));
        }
      }
    } catch (IOException e) {
      // Its end says it.
    }
    address.completeExceptionally(new IOException("it ended"));
  }

  /**
   * Waits until it serves.
   *
   * @throws IOException with the end of its log, if it ends or takes too long
   */
  public Address awaitReady(Duration most) throws IOException, InterruptedException {
    try {
      return address.get(most.toMillis(), TimeUnit.MILLISECONDS);
    } catch (ExecutionException e) {
      process.waitFor(CLOSE_SECONDS, TimeUnit.SECONDS);
      throw new IOException(
          name
              + " ended before it served: "
              + (process.isAlive() ? "" : "exit code " + process.exitValue())
              + tail(),
          e);
    } catch (TimeoutException e) {
      throw new IOException(name + " did not serve within " + most.toSeconds() + " s" + tail(), e);
    }
  }

  /** The process id. */
  public long pid() {
    return process.pid();
  }

  /** Whether it has not ended. */
  public boolean isAlive() {
    return process.isAlive();
  }

  /** The end of its log, on lines of their own. */
  public String tail() {
    try {
      List<String> lines = Files.readAllLines(log);
      List<String> last = lines.subList(Math.max(0, lines.size() - SHOWN_LINES), lines.size());
      return "\nits log, " + log + ", ends:\n  " + String.join("\n  ", last);
    } catch (IOException e) {
      return "\nits log, " + log + ", cannot be read: " + e;
    }
  }

  /** Ends it: asked first, then by force. Blocks for some seconds at most. */
  @Override
  public void close() {
    process.destroy();
    try {
      if (!process.waitFor(CLOSE_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
