package dev.mooncake4j.bench;

import dev.mooncake4j.bench.measure.Samples;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * What the peers' processes hold in main memory, less their KV caches, and what ours allocate on
 * their heaps for a request.
 */
final class Memory {
  private static final int ROUNDS = 5;
  private static final List<Party> PAIRS = List.of(Party.OURS, Party.VLLM);

  private final Fleet fleet;
  private final Transfers transfers;
  private final Map<Party, long[]> idle = new LinkedHashMap<>();
  private final List<Row> rows = new ArrayList<>();

  /**
   * What was seen of one shape.
   *
   * @param residentFrom most bytes of the prefiller's process, without its cache
   * @param residentTo most bytes of the decoder's process, without its cache
   * @param heapFrom heap bytes a request that the prefiller allocates, or {@code null}
   * @param heapTo heap bytes a request that the decoder allocates, or {@code null}
   */
  record Row(
      String party,
      String state,
      long residentFrom,
      long residentTo,
      @Nullable Double heapFrom,
      @Nullable Double heapTo) {}

  /** To be made before anything was moved: it looks at the idle processes. */
  Memory(Fleet fleet, RandomGenerator random) {
    this.fleet = fleet;
    this.transfers = new Transfers(fleet, random);
    for (Party party : PAIRS) {
      if (fleet.has(party)) {
        idle.put(party, resident(party));
        rows.add(
            new Row(party.title, "idle, as started", idle(party)[0], idle(party)[1], null, null));
      }
    }
  }

  private long[] idle(Party party) {
    return idle.getOrDefault(party, new long[2]);
  }

  private long[] resident(Party party) {
    long cache = fleet.cacheBytes();
    return new long[] {
      fleet.from(party).residentBytes() - cache, fleet.to(party).residentBytes() - cache
    };
  }

  /** Moves some of each and looks at the processes after every round. */
  List<Row> measure(List<Shape> shapes) throws InterruptedException {
    for (Shape shape : shapes) {
      Progress.show("memory, " + shape);
      for (Party party : idle.keySet()) {
        rows.add(one(party, shape));
      }
    }
    Progress.clear();
    return rows;
  }

  private Row one(Party party, Shape shape) throws InterruptedException {
    long[] most = new long[2];
    List<Double> heapFrom = new ArrayList<>();
    List<Double> heapTo = new ArrayList<>();
    for (int i = 0; i < ROUNDS; i++) {
      Measured measured = transfers.move(party, shape, false);
      long[] now = resident(party);
      most[0] = Math.max(most[0], now[0]);
      most[1] = Math.max(most[1], now[1]);
      heapFrom.add((double) measured.allocatedFrom() / shape.requests());
      heapTo.add((double) measured.allocatedTo() / shape.requests());
    }
    boolean known = party == Party.OURS;
    return new Row(
        party.title,
        shape.toString(),
        most[0],
        most[1],
        known ? (Double) Samples.of(heapFrom).median() : null,
        known ? (Double) Samples.of(heapTo).median() : null);
  }

  static TextTable table(List<Row> rows) {
    TextTable table =
        new TextTable(
            "memory",
            "party",
            "P resident MB",
            "D resident MB",
            "P heap B/request",
            "D heap B/request");
    for (Row row : rows) {
      table.add(
          List.of(
              row.state(),
              row.party(),
              TextTable.number(row.residentFrom() / 1e6),
              TextTable.number(row.residentTo() / 1e6),
              TextTable.number(row.heapFrom()),
              TextTable.number(row.heapTo())));
    }
    return table;
  }
}
