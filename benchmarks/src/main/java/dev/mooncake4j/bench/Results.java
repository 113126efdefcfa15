package dev.mooncake4j.bench;

import dev.mooncake4j.bench.measure.Samples;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToDoubleFunction;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What has been measured, by shape and party, in the order in which it was. One thread. */
final class Results {
  private final Map<Shape, Map<Party, List<Measured>>> rounds = new LinkedHashMap<>();
  private final long bytesPerBlock;

  /** Results of requests whose blocks have so many bytes over all layers. */
  Results(long bytesPerBlock) {
    this.bytesPerBlock = bytesPerBlock;
  }

  void add(Shape shape, Party party, Measured measured) {
    rounds
        .computeIfAbsent(shape, key -> new EnumMap<>(Party.class))
        .computeIfAbsent(party, key -> new ArrayList<>())
        .add(measured);
  }

  Set<Shape> shapes() {
    return rounds.keySet();
  }

  Set<Party> parties() {
    Set<Party> parties = EnumSet.noneOf(Party.class);
    rounds.values().forEach(byParty -> parties.addAll(byParty.keySet()));
    return parties;
  }

  List<Measured> rounds(Shape shape, Party party) {
    return rounds.getOrDefault(shape, Map.of()).getOrDefault(party, List.of());
  }

  /** Median seconds of a round, from the first start to the last end; {@code null} if unknown. */
  @Nullable Double total(Shape shape, Party party) {
    return median(shape, party, Measured::total);
  }

  /** The same of the engine, polled in the way that is faster for this shape. */
  @Nullable Double engineTotal(Shape shape) {
    return Stream.of(Party.ENGINE_SPINNING, Party.ENGINE_PARKING)
        .map(party -> total(shape, party))
        .filter(java.util.Objects::nonNull)
        .min(Double::compare)
        .orElse(null);
  }

  /** A percentile of the seconds of all requests of all rounds. */
  @Nullable Double latency(Shape shape, Party party, double percent) {
    List<Double> all =
        rounds(shape, party).stream().flatMap(each -> each.seconds().stream()).toList();
    return all.isEmpty() ? null : Samples.of(all).percentile(percent);
  }

  private @Nullable Double median(Shape shape, Party party, ToDoubleFunction<Measured> value) {
    double[] values = rounds(shape, party).stream().mapToDouble(value).toArray();
    return values.length == 0 ? null : new Samples(values).median();
  }

  /** Bytes that one round of a shape moves. */
  long bytes(Shape shape) {
    return shape.totalBlocks() * bytesPerBlock;
  }

  /** All of it, for the file of raw numbers. */
  List<Map<String, Object>> raw() {
    List<Map<String, Object>> raw = new ArrayList<>();
    rounds.forEach(
        (shape, byParty) ->
            byParty.forEach(
                (party, measured) -> {
                  Map<String, Object> entry = new LinkedHashMap<>();
                  entry.put("party", party.title);
                  entry.put("requests", shape.requests());
                  entry.put("blocks", shape.blocks());
                  entry.put("mode", shape.mode());
                  entry.put("bytes", bytes(shape));
                  entry.put("rounds", measured);
                  raw.add(entry);
                }));
    return raw;
  }
}
