package dev.mooncake4j.bench;

import dev.mooncake4j.bench.BenchOptions.Part;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * What {@code ./bench.sh} runs: starts the peers, measures, and prints the tables and the targets.
 * Exit codes: 0 when all was measured, whether or not targets are met; 1 when something failed; 2
 * for bad options.
 */
public final class BenchMain {
  private static final JsonMapper JSON =
      JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

  private static final List<Party> ALL =
      List.of(
          Party.OURS,
          Party.ENGINE_SPINNING,
          Party.VLLM,
          Party.ENGINE_PARKING,
          Party.OURS_TO_VLLM,
          Party.VLLM_TO_OURS);

  /** Those at once. */
  private static final List<Shape> MANY =
      List.of(
          new Shape(8, 64, false),
          new Shape(8, 64, true),
          new Shape(32, 16, false),
          new Shape(32, 16, true),
          new Shape(64, 1, false),
          new Shape(64, 1, true));

  private static final List<Party> PAIRS = List.of(Party.OURS, Party.VLLM);

  /** Blocks beyond those of the largest shape, so that scattered ones leave gaps. */
  private static final int SPARE_BLOCKS = 48;

  private final BenchOptions options;
  private final List<Figure> figures = new ArrayList<>();
  private Results releases = new Results(0);

  private BenchMain(BenchOptions options) {
    this.options = options;
  }

  /** Measures what the arguments ask for. */
  public static void main(String[] args) throws IOException, InterruptedException {
    BenchOptions options;
    try {
      options = BenchOptions.parse(args);
    } catch (IllegalArgumentException e) {
      System.err.println("bench: " + e.getMessage() + "; ./bench.sh --help lists the options");
      System.exit(2);
      return;
    }
    try {
      new BenchMain(options).run();
    } catch (IllegalStateException e) {
      System.err.println("bench: " + e.getMessage());
      System.exit(1);
    }
    System.exit(0);
  }

  private void run() throws IOException, InterruptedException {
    Files.createDirectories(options.out());
    if (options.parts().contains(Part.PLANNING)) {
      planning();
    }
    if (options.parts().contains(Part.CEILINGS)) {
      ceilings();
    }
    transfers();
    if (options.parts().contains(Part.SENDING)) {
      sending();
    }
    if (options.parts().contains(Part.CONTROL)) {
      leases();
    }
    summary();
  }

  private void planning() throws IOException, InterruptedException {
    List<Planning.Planned> planned =
        Planning.measure(
            options.rounds(),
            options.vllmPython(),
            options.vllmPrograms(),
            options.out().resolve("logs"));
    write(Part.PLANNING.title(), Planning.raw(planned));
    print("planning", Planning.table(planned));
    figures.addAll(Planning.targets(planned));
  }

  private void ceilings() throws IOException, InterruptedException {
    List<Ceilings.Ceiling> ceilings =
        Ceilings.measure(options.vllmPython(), options.out().resolve("logs"));
    write(Part.CEILINGS.title(), ceilings);
    print("the wire's and the engine's own speed", Ceilings.table(ceilings));
  }

  private void transfers() throws IOException, InterruptedException {
    List<Shape> one = oneRequestShapes();
    List<Shape> many = manyShapes();
    int most = 0;
    for (Shape shape : one) {
      most = Math.max(most, shape.totalBlocks());
    }
    for (Shape shape : many) {
      most = Math.max(most, shape.totalBlocks());
    }
    boolean memory = options.parts().contains(Part.MEMORY);
    boolean control = options.parts().contains(Part.CONTROL);
    if (memory) {
      for (Shape shape : MANY) {
        most = Math.max(most, shape.totalBlocks());
      }
    }
    if (most == 0 && !control) {
      return;
    }
    Random random = new Random(7);
    Progress.show("starting the peers");
    try (Fleet fleet =
        Fleet.start(
            most + SPARE_BLOCKS,
            options.vllmPython(),
            options.vllmPrograms().resolve("bench_peer.py"),
            !one.isEmpty(),
            List.of(),
            options.out().resolve("logs"))) {
      Memory idle = memory ? new Memory(fleet, random) : null;
      Rounds rounds = new Rounds(fleet, options.rounds(), random);
      rounds.warmUp(ALL);
      if (!one.isEmpty()) {
        Results results = rounds.measure(one, ALL);
        write(Part.ONE_REQUEST.title(), results.raw());
        print("one request, p50 ms", Tables.oneRequest(results));
        figures.addAll(Targets.oneRequest(results));
      }
      if (!many.isEmpty()) {
        Results results = rounds.measure(many, PAIRS);
        write(Part.MANY.title(), results.raw());
        print("many requests at once", Tables.many(results));
        figures.addAll(Targets.many(results));
      }
      if (idle != null) {
        List<Memory.Row> rows = idle.measure(MANY);
        write(Part.MEMORY.title(), rows);
        print("memory", Memory.table(rows));
      }
      if (control) {
        releases = Control.releases(fleet, options.rounds());
      }
    }
  }

  private List<Shape> oneRequestShapes() {
    List<Shape> shapes = new ArrayList<>();
    if (options.parts().contains(Part.ONE_REQUEST)) {
      for (int blocks : options.blocks()) {
        shapes.add(new Shape(1, blocks, false));
        shapes.add(new Shape(1, blocks, true));
      }
    }
    return shapes;
  }

  private List<Shape> manyShapes() {
    return options.parts().contains(Part.MANY) ? MANY : List.of();
  }

  /** After the other peers have ended: what is sent early is configured when a peer starts. */
  private void sending() throws IOException, InterruptedException {
    Random random = new Random(11);
    try (Fleet fleet =
        Fleet.start(
            EarlySending.BLOCKS + SPARE_BLOCKS,
            null,
            options.vllmPrograms(),
            false,
            EarlySending.OPTIONS,
            options.out().resolve("logs"))) {
      new Rounds(fleet, options.rounds(), random).warmUp(List.of(Party.OURS));
      EarlySending.Measured measured = EarlySending.measure(fleet, options.rounds(), random);
      write(Part.SENDING.title(), measured);
      print("sending while the prefill goes on", EarlySending.table(measured));
      figures.add(EarlySending.target(measured));
    }
  }

  /** After the other peers have ended: leases are configured when a peer starts. */
  private void leases() throws IOException, InterruptedException {
    try (Fleet fleet =
        Fleet.start(
            SPARE_BLOCKS,
            null,
            options.vllmPrograms(),
            false,
            Control.leaseOptions(),
            options.out().resolve("logs"))) {
      Control.Leases leases = Control.leases(fleet);
      write(Part.CONTROL.title(), Control.raw(releases, leases));
      print("control plane", Control.table(releases, leases));
      figures.addAll(Control.targets(releases, leases));
    }
  }

  private void summary() throws IOException {
    write("summary", figures);
    print("targets", Tables.targets(figures));
    System.out.println("raw numbers: " + options.out());
  }

  private void write(String name, Object value) throws IOException {
    Path file = options.out().resolve(name + ".json");
    Files.writeString(file, JSON.writeValueAsString(value) + "\n");
  }

  private static void print(String title, TextTable table) {
    System.out.println(title + "\n");
    System.out.println(table);
  }
}
