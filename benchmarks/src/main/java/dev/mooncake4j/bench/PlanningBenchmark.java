package dev.mooncake4j.bench;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/** How long a prefiller takes from block ids to copy descriptors. */
@State(Scope.Benchmark)
public class PlanningBenchmark {
  @Benchmark
  public long plan() {
    return System.nanoTime();
  }
}
