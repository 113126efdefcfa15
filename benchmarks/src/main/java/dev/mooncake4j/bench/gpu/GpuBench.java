package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.bench.gpu.Pair.Blocks;
import dev.mooncake4j.bench.gpu.Pair.Pulled;
import dev.mooncake4j.bench.measure.ChildProcess.PeerFailure;
import dev.mooncake4j.bench.measure.Samples;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.JsonNode;

/**
 * What {@code gpu-bench.sh} runs: a prefiller and a decoder, two JVMs on one GPU, with the cache in
 * device memory; each request also as one batch of the engine alone, and as one plain copy.
 *
 * <p>Every result is printed and written as it comes. Exit codes: 0 when all ran and all bytes were
 * right, 1 otherwise, 2 for bad options.
 */
public final class GpuBench {
  private static final String IPC = "nvlink_intra";
  private static final String TCP = "tcp";
  private static final List<String> SHAPES = List.of("qwen2.5-7b", "deepseek-mla");
  private static final int ROUNDS = 9;
  private static final int WARM_UPS = 2000;
  private static final long WARM_UP_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final long LEAST_WARM_UP_NANOS = TimeUnit.SECONDS.toNanos(2);
  private static final long LONG_PULL_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
  private static final int QUICK_ROUNDS = 3;

  private final Options options;
  private final Report report;
  private boolean failed;

  private GpuBench(Options options, Report report) {
    this.options = options;
    this.report = report;
  }

  /** Runs it; {@link Options} has the arguments. */
  public static void main(String[] args) throws IOException, InterruptedException {
    Options options;
    try {
      options = Options.parse(args);
    } catch (IllegalArgumentException e) {
      System.err.println("gpu-bench: " + e.getMessage());
      System.exit(2);
      return;
    }
    GpuBench bench = new GpuBench(options, new Report(options.out()));
    switch (options.mode()) {
      case PROBE -> bench.probe();
      case EXPLORE -> bench.explore();
      case BENCH -> bench.measure();
    }
    System.exit(bench.failed ? 1 : 0);
  }

  private void say(String format, Object... values) {
    System.out.printf(Locale.ROOT, format + "%n", values);
    System.out.flush();
  }

  private List<String> transports() {
    return options.hostMemory() ? List.of(TCP) : List.of(IPC, TCP);
  }

  private int[] counts(String transport) {
    if (!options.counts().isEmpty()) {
      return options.counts().stream().mapToInt(Integer::intValue).toArray();
    }
    if (options.hostMemory()) {
      return options.quick() ? new int[] {8} : new int[] {8, 64};
    }
    if (transport.equals(TCP)) {
      return options.quick() ? new int[] {64} : new int[] {64, 512};
    }
    return options.quick() ? new int[] {64, 8192} : new int[] {64, 512, 8192};
  }

  // ---- The benchmark

  private void measure() throws IOException, InterruptedException {
    for (String transport : transports()) {
      for (String name : SHAPES) {
        Shape shape = Shape.named(name);
        int[] counts = counts(transport);
        int blocks = Math.ceilDiv(counts[counts.length - 1] / 8 * 9, 8) * 8;
        long start = System.nanoTime();
        try (Pair pair = Pair.start(options.peers(), shape, blocks, transport, device())) {
          say(
              "%s %s: two JVMs with %d blocks each are ready after %.1f s (%s)",
              transport, name, blocks, (System.nanoTime() - start) / 1e9, pair.description());
          warmUp(pair, new Blocks(Pattern.CONTIGUOUS, 8, 3), WARM_UP_NANOS);
          for (int count : counts) {
            for (Pattern pattern : Pattern.values()) {
              measure(pair, transport, shape, new Blocks(pattern, count, count + 1));
            }
          }
        } catch (PeerFailure e) {
          note(transport + " " + name, e);
        }
      }
    }
    report.finish();
  }

  private String device() {
    return options.hostMemory() ? "host" : "cuda";
  }

  private void note(String what, PeerFailure e) {
    failed = true;
    say("FAILED %s: %s", what, String.valueOf(e.getMessage()));
  }

  /** As of a server that has run for a while: the JVMs compile what a request goes through. */
  private void warmUp(Pair pair, Blocks blocks, long nanos) throws InterruptedException {
    long start = System.nanoTime();
    long passed = 0;
    for (int i = 0; i < WARM_UPS && passed < nanos; i++) {
      pair.pull(blocks);
      passed = System.nanoTime() - start;
      if (passed > LEAST_WARM_UP_NANOS && passed / (i + 1) > LONG_PULL_NANOS) {
        return; // what is compiled makes no difference to one that takes so long
      }
    }
  }

  private void measure(Pair pair, String transport, Shape shape, Blocks blocks)
      throws IOException, InterruptedException {
    pair.zero();
    Pulled first = pair.pull(blocks);
    pair.verify(blocks);
    if (first.bytes() != shape.bytes(blocks.count())) {
      throw new PeerFailure(
          "bytes=" + first.bytes() + " of " + shape.bytes(blocks.count()) + " were written");
    }
    pair.zero();
    pair.bare(blocks);
    pair.verify(blocks);
    Result result = new Result(transport, shape, blocks, first.bytes(), first.descriptors());
    pair.plain(first.bytes());
    warmUp(pair, blocks, WARM_UP_NANOS);
    int rounds = options.quick() ? QUICK_ROUNDS : ROUNDS;
    long end = System.nanoTime() + options.caseNanos();
    // A slow case ends earlier, but not before three rounds.
    for (int i = 0; i < rounds && (i < 3 || System.nanoTime() - end < 0); i++) {
      Pulled pulled = pair.pull(blocks);
      JsonNode bare = pair.bare(blocks);
      result.add(pulled, bare, pair.plain(first.bytes()));
    }
    report.add(result);
    say("%s", result.line());
  }

  // ---- What works on this machine

  private void probe() throws IOException, InterruptedException {
    Shape shape = Shape.named("probe");
    Blocks blocks = new Blocks(Pattern.SCATTERED, 64, 1);
    List<String> tried = options.hostMemory() ? List.of(IPC, TCP) : List.of(IPC, TCP, "nvlink");
    boolean any = false;
    for (String transport : tried) {
      try (Pair pair = Pair.start(options.peers(), shape, 128, transport, device())) {
        pair.zero();
        Pulled pulled = pair.pull(blocks);
        pair.verify(blocks);
        say(
            "probe %s: ok, %d bytes in %d descriptors verified, first pull %.1f ms, second %.2f ms"
                + " (%s)",
            transport,
            pulled.bytes(),
            pulled.descriptors(),
            pulled.nanos() / 1e6,
            pair.pull(blocks).nanos() / 1e6,
            pair.description());
        pair.zero();
        pair.bare(blocks);
        pair.verify(blocks);
        say("probe %s: the bare engine too", transport);
        any = true;
      } catch (PeerFailure e) {
        say("probe %s: does not work: %s", transport, String.valueOf(e.getMessage()));
      }
    }
    failed = !any;
  }

  // ---- What bounds scattered copies

  private void explore() throws IOException, InterruptedException {
    boolean host = options.hostMemory();
    int count = options.counts().isEmpty() ? (host ? 32 : 512) : options.counts().getLast();
    Blocks blocks = new Blocks(Pattern.SCATTERED, count, 7);
    String transport = host ? TCP : IPC;
    for (String name : SHAPES) {
      Shape shape = Shape.named(name);
      try (Pair pair = Pair.start(options.peers(), shape, count * 2, transport, device())) {
        pair.bare(blocks);
        JsonNode bare = pair.bare(blocks);
        say("%s, %d scattered blocks: bare %s", name, count, bare);
        report.raw("explore-bare-" + name, bare);
        if (!host) {
          JsonNode costs = pair.cuda(blocks, 3);
          report.raw("explore-cuda-" + name, costs);
          for (String key : costs.propertyNames()) {
            say("%s: cuda alone: %s = %s", name, key, costs.get(key));
          }
        }
        sweep(pair, blocks, name);
      } catch (PeerFailure e) {
        note("explore " + name, e);
      }
    }
  }

  private void sweep(Pair pair, Blocks blocks, String name)
      throws IOException, InterruptedException {
    for (int lanes : new int[] {1, 2, 4, 8, 16, 24, 32}) {
      for (int window : new int[] {32, 128, 256, 1024}) {
        JsonNode swept = pair.sweep(blocks, lanes, window, 5);
        List<Double> nanos = new ArrayList<>();
        swept.get("nanos").forEach(each -> nanos.add(each.asDouble()));
        double median = Samples.of(nanos).median();
        report.raw("explore-sweep-" + name + "-" + lanes + "-" + window, swept);
        say(
            "%s: lanes=%d window=%d: %.2f ms, %.1f GB/s, %.2f us a descriptor",
            name,
            lanes,
            window,
            median / 1e6,
            swept.get("bytes").asDouble() / median,
            median / 1e3 / swept.get("descriptors").asInt());
      }
    }
  }
}
