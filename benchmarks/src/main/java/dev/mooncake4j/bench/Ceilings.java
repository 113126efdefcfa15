package dev.mooncake4j.bench;

import dev.mooncake4j.bench.measure.Samples;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.json.JsonMapper;

/**
 * What the wire and the engine can do here, by programs that are not ours: {@code iperf3} over
 * loopback and the engine's own {@code transfer_engine_bench}, in turns.
 */
final class Ceilings {
  private static final int ROUNDS = 3;
  private static final int SECONDS = 2;
  private static final Pattern LISTENING = Pattern.compile("listening on [0-9.]+:([0-9]+)");
  private static final Pattern THROUGHPUT = Pattern.compile("throughput ([0-9.]+) GB/s");

  private final Path logs;

  /**
   * A ceiling.
   *
   * @param gigabytesPerSecond by round; empty where it could not be measured
   * @param leftOut why not, or {@code null}
   */
  record Ceiling(String name, List<Double> gigabytesPerSecond, @Nullable String leftOut) {}

  private interface Run {
    double gigabytesPerSecond() throws IOException, InterruptedException;
  }

  private record Kind(String name, Run run) {}

  private Ceilings(Path logs) {
    this.logs = logs;
  }

  /**
   * Measures what there is.
   *
   * @param python of the environment that has the engine's benchmark beside it, or {@code null}
   */
  static List<Ceiling> measure(@Nullable Path python, Path logs)
      throws IOException, InterruptedException {
    Files.createDirectories(logs);
    return new Ceilings(logs).all(engineBench(python));
  }

  private List<Ceiling> all(@Nullable Path bench) throws IOException, InterruptedException {
    List<Kind> kinds = new ArrayList<>();
    List<Ceiling> ceilings = new ArrayList<>();
    if (isOnPath("iperf3")) {
      kinds.add(new Kind("iperf3, one stream", this::iperf));
    } else {
      ceilings.add(new Ceiling("iperf3", List.of(), "iperf3 is not installed"));
    }
    if (bench != null) {
      kinds.add(
          new Kind("transfer_engine_bench, 64 KiB x 128 x 2", () -> engine(bench, 65_536, 128, 2)));
      kinds.add(
          new Kind("transfer_engine_bench, 1 MiB x 16 x 1", () -> engine(bench, 1 << 20, 16, 1)));
    } else {
      ceilings.add(
          new Ceiling(
              "transfer_engine_bench", List.of(), "it is in the environment of --peer alone"));
    }
    List<List<Double>> values = new ArrayList<>();
    List<String> failures = new ArrayList<>();
    for (Kind _ : kinds) {
      values.add(new ArrayList<>());
      failures.add("");
    }
    for (int round = 0; round < ROUNDS; round++) {
      for (int i = 0; i < kinds.size(); i++) {
        Progress.show(kinds.get(i).name() + ", round " + (round + 1) + " of " + ROUNDS);
        try {
          if (failures.get(i).isEmpty()) {
            values.get(i).add(kinds.get(i).run().gigabytesPerSecond());
          }
        } catch (IOException | JacksonException e) {
          failures.set(i, String.valueOf(e.getMessage()));
        }
      }
    }
    Progress.clear();
    for (int i = 0; i < kinds.size(); i++) {
      String failure = failures.get(i);
      ceilings.add(
          new Ceiling(kinds.get(i).name(), values.get(i), failure.isEmpty() ? null : failure));
    }
    return ceilings;
  }

  private static boolean isOnPath(String program) {
    for (String folder : System.getenv().getOrDefault("PATH", "").split(":", -1)) {
      if (Files.isExecutable(Path.of(folder, program))) {
        return true;
      }
    }
    return false;
  }

  private static @Nullable Path engineBench(@Nullable Path python) throws IOException {
    Path lib = python == null ? null : python.resolveSibling("../lib").normalize();
    if (lib == null) {
      return null;
    }
    try (DirectoryStream<Path> versions = Files.newDirectoryStream(lib, "python3*")) {
      for (Path version : versions) {
        Path bench = version.resolve("site-packages/mooncake/transfer_engine_bench");
        if (Files.isExecutable(bench)) {
          return bench;
        }
      }
    }
    return null;
  }

  private double iperf() throws IOException, InterruptedException {
    String port = String.valueOf(Fleet.freePort());
    Process server = start("iperf-server", List.of("iperf3", "-s", "-1", "-p", port));
    try {
      IOException last = null;
      // The server takes a moment to listen.
      for (int attempt = 0; attempt < 20; attempt++) {
        Process client =
            start(
                "iperf-client",
                List.of("iperf3", "-c", "127.0.0.1", "-p", port, "-t", "" + SECONDS, "-J"));
        if (client.waitFor(SECONDS + 20, TimeUnit.SECONDS)) {
          // It ends with 0 also where it could not connect.
          String bits = "/end/sum_received/bits_per_second";
          double received =
              JsonMapper.shared().readTree(output("iperf-client")).at(bits).asDouble(0);
          if (received > 0) {
            return received / 8e9;
          }
        }
        client.destroyForcibly();
        last = new IOException("iperf3 failed: " + output("iperf-client"));
        Thread.sleep(100);
      }
      throw last == null ? new IOException("iperf3 was not tried") : last;
    } finally {
      server.destroyForcibly();
    }
  }

  private double engine(Path bench, int block, int batch, int threads)
      throws IOException, InterruptedException {
    List<String> common =
        List.of(
            bench.toString(),
            "--metadata_server=P2PHANDSHAKE",
            "--local_server_name=127.0.0.1",
            "--protocol=tcp",
            "--buffer_size=" + (256 << 20));
    List<String> target = new ArrayList<>(common);
    target.add("--mode=target");
    Process listening = start("engine-bench-target", target);
    try {
      List<String> initiator = new ArrayList<>(common);
      initiator.addAll(
          List.of(
              "--mode=initiator",
              "--operation=write",
              "--segment_id=127.0.0.1:" + found("engine-bench-target", LISTENING, listening),
              "--block_size=" + block,
              "--batch_size=" + batch,
              "--threads=" + threads,
              "--duration=" + SECONDS));
      Process running = start("engine-bench-initiator", initiator);
      try {
        if (!running.waitFor(SECONDS + 60, TimeUnit.SECONDS)) {
          throw new IOException("transfer_engine_bench does not end");
        }
        return Double.parseDouble(found("engine-bench-initiator", THROUGHPUT, running));
      } finally {
        running.destroyForcibly();
      }
    } finally {
      listening.destroyForcibly();
    }
  }

  /** Waits until a process has written what is looked for, or has ended without it. */
  private String found(String name, Pattern pattern, Process process)
      throws IOException, InterruptedException {
    for (int attempt = 0; attempt < 200; attempt++) {
      boolean over = !process.isAlive();
      Matcher matcher = pattern.matcher(output(name));
      if (matcher.find()) {
        return matcher.group(1);
      }
      if (over) {
        break;
      }
      Thread.sleep(50);
    }
    throw new IOException(name + " does not say \"" + pattern + "\": see " + log(name));
  }

  private Process start(String name, List<String> command) throws IOException {
    Process process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(log(name).toFile())
            .start();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    return process;
  }

  private Path log(String name) {
    return logs.resolve(name + ".log");
  }

  private String output(String name) throws IOException {
    return Files.readString(log(name), StandardCharsets.UTF_8);
  }

  static TextTable table(List<Ceiling> ceilings) {
    TextTable table = new TextTable("ceiling", "GB/s", "left out because");
    for (Ceiling ceiling : ceilings) {
      List<Double> values = ceiling.gigabytesPerSecond();
      String reason = ceiling.leftOut();
      table.add(
          List.of(
              ceiling.name(),
              TextTable.number(values.isEmpty() ? null : (Double) Samples.of(values).median()),
              reason == null ? "" : reason));
    }
    return table;
  }
}
