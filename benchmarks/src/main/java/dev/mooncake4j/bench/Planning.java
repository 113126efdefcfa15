package dev.mooncake4j.bench;

import dev.mooncake4j.bench.Figure.Rule;
import dev.mooncake4j.bench.measure.ChildProcess;
import dev.mooncake4j.bench.measure.Samples;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.BenchmarkResult;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Planning: JMH on ours and calls of vLLM's function, in turns. JMH's numbers are the means of its
 * iterations, and the heap that a call allocates by its GC profiler.
 */
final class Planning {
  private static final Duration PATIENCE = Duration.ofMinutes(5);
  private static final int TURNS = 3;
  private static final String ALLOCATED = "gc.alloc.rate.norm";

  /**
   * What was measured of a shape.
   *
   * @param steadyNanos a plan, by iteration
   * @param firstNanos a plan with all that comes before it, by iteration
   * @param steadyBytes heap bytes of a plan
   * @param firstBytes heap bytes of a plan with all that comes before it
   * @param vllmNanos vLLM's, by call; empty without vLLM
   */
  record Planned(
      PlanShape shape,
      List<Double> steadyNanos,
      List<Double> firstNanos,
      double steadyBytes,
      double firstBytes,
      List<Double> vllmNanos) {
    double steady() {
      return Samples.of(steadyNanos).median();
    }

    @Nullable Double vllm() {
      return vllmNanos.isEmpty() ? null : (Double) Samples.of(vllmNanos).median();
    }
  }

  private final int perTurn;
  private final @Nullable ChildProcess vllm;

  private Planning(int rounds, @Nullable ChildProcess vllm) {
    this.perTurn = Math.ceilDiv(rounds, TURNS);
    this.vllm = vllm;
  }

  /** Measures all shapes, with vLLM's function where there is a Python that has it. */
  static List<Planned> measure(int rounds, @Nullable Path python, Path programs, Path logs)
      throws InterruptedException {
    if (python == null) {
      return new Planning(rounds, null).all();
    }
    List<String> command = List.of(python.toString(), programs.resolve("plan_bench.py").toString());
    try (ChildProcess vllm = ChildProcess.start("vllm-planning", command, Map.of(), logs)) {
      var _ = vllm.await("ready", PATIENCE);
      return new Planning(rounds, vllm).all();
    }
  }

  private List<Planned> all() throws InterruptedException {
    List<PlanShape> shapes = PlanShape.all();
    List<Planned> planned = new ArrayList<>();
    for (int i = 0; i < shapes.size(); i++) {
      planned.add(one(i, shapes.get(i)));
    }
    Progress.clear();
    return planned;
  }

  private Planned one(int index, PlanShape shape) throws InterruptedException {
    List<Double> steady = new ArrayList<>();
    List<Double> first = new ArrayList<>();
    List<Double> theirs = new ArrayList<>();
    double steadyBytes = 0;
    double firstBytes = 0;
    for (int turn = 0; turn < TURNS; turn++) {
      Progress.show("planning " + shape + ", turn " + (turn + 1) + " of " + TURNS);
      for (RunResult result : jmh(index)) {
        boolean isFirst = result.getParams().getBenchmark().endsWith(".first");
        for (BenchmarkResult fork : result.getBenchmarkResults()) {
          for (IterationResult iteration : fork.getIterationResults()) {
            (isFirst ? first : steady).add(iteration.getPrimaryResult().getScore());
          }
        }
        var allocated = result.getSecondaryResults().get(ALLOCATED);
        if (allocated == null) {
          throw new IllegalStateException("JMH does not tell " + ALLOCATED);
        }
        double bytes = allocated.getScore();
        // Of the turns the one with most: what is not allocated in steady state never is.
        if (isFirst) {
          firstBytes = Math.max(firstBytes, bytes);
        } else {
          steadyBytes = Math.max(steadyBytes, bytes);
        }
      }
      for (int i = 0; vllm != null && i < perTurn; i++) {
        theirs.add(askVllm(vllm, shape));
      }
    }
    return new Planned(shape, steady, first, steadyBytes, firstBytes, theirs);
  }

  private Iterable<RunResult> jmh(int index) {
    try {
      return new Runner(
              new OptionsBuilder()
                  .include(PlanningBenchmark.class.getName())
                  .param("shape", String.valueOf(index))
                  .forks(1)
                  .warmupIterations(3)
                  .warmupTime(TimeValue.milliseconds(300))
                  .measurementIterations(perTurn)
                  .measurementTime(TimeValue.milliseconds(300))
                  .addProfiler(GCProfiler.class)
                  // The first keeps the JVM from warning about JMH's own use of Unsafe.
                  .jvmArgs(
                      "--sun-misc-unsafe-memory-access=allow",
                      "-Xmx512m",
                      "--enable-native-access=ALL-UNNAMED",
                      "-Djmh.ignoreLock=true")
                  .verbosity(VerboseMode.SILENT)
                  .shouldFailOnError(true)
                  .build())
          .run();
    } catch (RunnerException e) {
      throw new IllegalStateException("planning: " + e.getMessage(), e);
    }
  }

  private static double askVllm(ChildProcess vllm, PlanShape shape) throws InterruptedException {
    var planned =
        vllm.ask(
            "plan",
            Map.of(
                "layers",
                shape.layers(),
                "source",
                shape.source(),
                "destination",
                shape.destination()),
            "planned",
            PATIENCE);
    int descriptors = planned.path("descriptors").intValue();
    if (descriptors != shape.descriptors()) {
      throw new IllegalStateException(
          "vLLM plans " + descriptors + " copies and not " + shape.descriptors() + ": " + shape);
    }
    return planned.path("seconds").doubleValue() * 1e9;
  }

  /** The targets of the largest request. */
  static List<Figure> targets(List<Planned> all) {
    List<Figure> figures = new ArrayList<>();
    for (Planned planned : all) {
      int descriptors = planned.shape().descriptors();
      if (descriptors != 499_712) {
        continue;
      }
      String name = "planning, " + descriptors + " descriptors: ";
      Double vllm = planned.vllm();
      figures.add(
          Figure.of(
              name + "speed",
              descriptors / planned.steady() * 1e3,
              vllm == null ? null : (Double) (descriptors / vllm * 1e3),
              "descriptors/us",
              Rule.RATIO_AT_LEAST,
              300,
              ">= 300 x vLLM's"));
      figures.add(
          Figure.of(
              name + "heap of the first plan",
              planned.firstBytes() / descriptors,
              null,
              "bytes/descriptor",
              Rule.BELOW,
              16,
              "< 16"));
      figures.add(
          Figure.of(
              name + "heap in steady state",
              planned.steadyBytes() / descriptors,
              null,
              "bytes/descriptor",
              Rule.BELOW,
              // JMH itself allocates some hundred bytes in an iteration, spread over its calls.
              0.01,
              "none"));
    }
    return figures;
  }

  static TextTable table(List<Planned> all) {
    TextTable table =
        new TextTable(
            "request",
            "descriptors",
            "ours ms",
            "first ms",
            "heap B",
            "first heap B",
            "vllm ms",
            "vllm/ours");
    for (Planned planned : all) {
      Double vllm = planned.vllm();
      table.add(
          List.of(
              planned.shape().toString(),
              String.valueOf(planned.shape().descriptors()),
              TextTable.number(planned.steady() / 1e6),
              TextTable.number(Samples.of(planned.firstNanos()).median() / 1e6),
              TextTable.number(planned.steadyBytes()),
              TextTable.number(planned.firstBytes()),
              TextTable.number(vllm == null ? null : (Double) (vllm / 1e6)),
              TextTable.number(vllm == null ? null : (Double) (vllm / planned.steady()))));
    }
    return table;
  }

  static List<Map<String, Object>> raw(List<Planned> all) {
    List<Map<String, Object>> raw = new ArrayList<>();
    for (Planned planned : all) {
      Map<String, Object> entry = new LinkedHashMap<>();
      entry.put("layers", planned.shape().layers());
      entry.put("blocks", planned.shape().blocks());
      entry.put("run", planned.shape().run());
      entry.put("descriptors", planned.shape().descriptors());
      entry.put("steady_ns", planned.steadyNanos());
      entry.put("first_ns", planned.firstNanos());
      entry.put("steady_heap_bytes", planned.steadyBytes());
      entry.put("first_heap_bytes", planned.firstBytes());
      entry.put("vllm_ns", planned.vllmNanos());
      raw.add(entry);
    }
    return raw;
  }
}
