package dev.mooncake4j.bench;

import dev.mooncake4j.bench.Figure.Rule;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The targets of the transfers, and what the results say of them. */
final class Targets {
  private Targets() {}

  /** One request at a time; shapes that were not measured are left out. */
  static List<Figure> oneRequest(Results results) {
    List<Figure> figures = new ArrayList<>();
    for (Shape shape : results.shapes()) {
      Double ours = results.total(shape, Party.OURS);
      Double vllm = results.total(shape, Party.VLLM);
      Double engine = results.engineTotal(shape);
      String name = "one request, " + shape + ": ";
      if (!shape.scattered() && (shape.blocks() == 8 || shape.blocks() == 64)) {
        figures.add(
            Figure.of(
                name + "latency p50 beside the engine alone",
                times(ours, 1e3),
                times(engine, 1e3),
                "ms",
                Rule.DIFFERENCE_AT_MOST,
                1,
                "<= engine + 1 ms"));
        figures.add(
            Figure.of(
                name + "latency over the engine alone",
                times(minus(ours, engine), 1e3),
                times(minus(vllm, engine), 1e3),
                "ms",
                Rule.RATIO_AT_MOST,
                1.0 / 3,
                "<= 1/3 of vLLM's"));
      }
      if (shape.blocks() == 256 || shape.blocks() == 2000) {
        long bytes = results.bytes(shape);
        figures.add(
            Figure.of(
                name + "bytes per second beside the engine alone",
                gigabytesPerSecond(bytes, ours),
                gigabytesPerSecond(bytes, engine),
                "GB/s",
                Rule.RATIO_AT_LEAST,
                0.95,
                ">= 0.95 of the engine"));
        double least = shape.scattered() ? 2 : 1.2;
        figures.add(
            Figure.of(
                name + "bytes per second",
                gigabytesPerSecond(bytes, ours),
                gigabytesPerSecond(bytes, vllm),
                "GB/s",
                Rule.RATIO_AT_LEAST,
                least,
                ">= " + least + " x vLLM's"));
      }
    }
    return figures;
  }

  /** Many at once; shapes that were not measured are left out. */
  static List<Figure> many(Results results) {
    List<Figure> figures = new ArrayList<>();
    for (Shape shape : results.shapes()) {
      String name = shape + ": ";
      Double ours = results.total(shape, Party.OURS);
      Double vllm = results.total(shape, Party.VLLM);
      if (shape.equals(new Shape(8, 64, false))) {
        long bytes = results.bytes(shape);
        figures.add(
            Figure.of(
                name + "bytes per second",
                gigabytesPerSecond(bytes, ours),
                gigabytesPerSecond(bytes, vllm),
                "GB/s",
                Rule.RATIO_AT_LEAST,
                2,
                ">= 2 x vLLM's"));
      }
      if (shape.requests() == 64 && shape.blocks() == 1 && !shape.scattered()) {
        figures.add(
            Figure.of(
                name + "requests per second",
                perSecond(shape.requests(), ours),
                perSecond(shape.requests(), vllm),
                "1/s",
                Rule.RATIO_AT_LEAST,
                5,
                ">= 5 x vLLM's"));
        figures.add(
            Figure.of(
                name + "latency p99",
                times(results.latency(shape, Party.OURS, 99), 1e3),
                times(results.latency(shape, Party.VLLM, 99), 1e3),
                "ms",
                Rule.RATIO_AT_MOST,
                0.25,
                "<= 1/4 of vLLM's"));
      }
    }
    return figures;
  }

  static @Nullable Double gigabytesPerSecond(long bytes, @Nullable Double seconds) {
    return seconds == null ? null : (Double) (bytes / seconds / 1e9);
  }

  static @Nullable Double perSecond(int count, @Nullable Double seconds) {
    return seconds == null ? null : (Double) (count / seconds);
  }

  private static @Nullable Double times(@Nullable Double value, double factor) {
    return value == null ? null : (Double) (value * factor);
  }

  private static @Nullable Double minus(@Nullable Double value, @Nullable Double other) {
    return (value == null || other == null) ? null : (Double) (value - other);
  }
}
