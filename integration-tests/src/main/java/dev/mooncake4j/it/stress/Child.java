package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.FromPeer;
import dev.mooncake4j.it.stress.Messages.ToPeer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.json.JsonMapper;

/**
 * A {@link StressPeer} as a child process. What it tells comes on a thread of its own, what it is
 * told goes through another: a child that is stopped holds nobody up. Thread-safe.
 */
final class Child {
  private static final JsonMapper JSON = JsonMapper.builder().build();
  private static final int ERROR_BYTES_SHOWN = 4000;

  final String name;
  private final Process process;
  private final Path folder;
  private final BlockingQueue<ToPeer> outbox = new LinkedBlockingQueue<>();
  private final Thread writer;

  /** Whether its end has been taken; the driver's loop alone. */
  private boolean gone;

  private Child(
      String name,
      Process process,
      Path folder,
      BiConsumer<Child, FromPeer> told,
      Consumer<Child> ended) {
    this.name = name;
    this.process = process;
    this.folder = folder;
    writer = Thread.ofPlatform().daemon().name(name + "-jobs").start(this::write);
    Thread.ofPlatform().daemon().name(name + "-told").start(() -> read(told, ended));
  }

  /**
   * Starts one.
   *
   * @param folder its working directory, for its standard error and what it leaves
   * @param told takes what it tells
   * @param ended takes it when it has ended
   */
  static Child start(
      String name,
      List<String> command,
      Path folder,
      BiConsumer<Child, FromPeer> told,
      Consumer<Child> ended) {
    try {
      Files.createDirectories(folder);
      Process process =
          new ProcessBuilder(command)
              .directory(folder.toFile())
              .redirectError(folder.resolve("stderr").toFile())
              .start();
      return new Child(name, process, folder, told, ended);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot start " + command.getFirst(), e);
    }
  }

  private void read(BiConsumer<Child, FromPeer> told, Consumer<Child> ended) {
    try (BufferedReader in = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        told.accept(this, JSON.readValue(line, FromPeer.class));
      }
    } catch (IOException | JacksonException e) {
      // The pipe of a killed process, or half a line of it: its end is what counts.
    }
    ended.accept(this);
    writer.interrupt();
  }

  private void write() {
    try (OutputStream out = process.getOutputStream()) {
      while (true) {
        ToPeer message = outbox.take();
        out.write((JSON.writeValueAsString(message) + "\n").getBytes(StandardCharsets.UTF_8));
        out.flush();
      }
    } catch (IOException | InterruptedException e) {
      // It has ended.
    }
  }

  void tell(ToPeer message) {
    outbox.add(message);
  }

  /** Its end has been taken: what it had is lost, and nothing more can be given to it. */
  void setGone() {
    gone = true;
  }

  boolean isGone() {
    return gone;
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** SIGKILL. */
  void kill() {
    process.destroyForcibly();
  }

  /** Another signal, by its name. */
  void signal(String signal) {
    try {
      Process kill = new ProcessBuilder("kill", "-" + signal, "" + process.pid()).start();
      int code = kill.waitFor();
      if (code != 0 && process.isAlive()) {
        throw new IllegalStateException(name + " takes no signal " + signal);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    }
  }

  /** Its exit code; it must have ended. */
  int exitCode() {
    return process.exitValue();
  }

  /** The end of its standard error, and what a crash has left. */
  String lastWords() {
    try {
      byte[] errors = Files.readAllBytes(folder.resolve("stderr"));
      int from = Math.max(0, errors.length - ERROR_BYTES_SHOWN);
      String tail = new String(errors, from, errors.length - from, StandardCharsets.UTF_8);
      try (var files = Files.list(folder)) {
        return "left=" + files.map(p -> p.getFileName().toString()).toList() + "\n" + tail;
      }
    } catch (IOException e) {
      return "its standard error cannot be read: " + e.getMessage();
    }
  }

  @Override
  public String toString() {
    return name + "[pid=" + process.pid() + "]";
  }
}
