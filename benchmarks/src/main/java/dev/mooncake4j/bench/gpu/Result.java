package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.bench.measure.Samples;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import tools.jackson.databind.JsonNode;

/** What was measured of one case: the raw nanoseconds of every round. One thread at a time. */
final class Result {
  private final String transport;
  private final Shape shape;
  private final Pair.Blocks blocks;
  private final long bytes;
  private final int descriptors;
  private final List<Long> ours = new ArrayList<>();
  private final List<Long> oursWrite = new ArrayList<>();
  private final List<Long> bare = new ArrayList<>();
  private final List<Long> bareSubmit = new ArrayList<>();
  private final List<Long> barePoll = new ArrayList<>();
  private final List<Long> plain = new ArrayList<>();
  private int bareDescriptors;

  Result(String transport, Shape shape, Pair.Blocks blocks, long bytes, int descriptors) {
    this.transport = transport;
    this.shape = shape;
    this.blocks = blocks;
    this.bytes = bytes;
    this.descriptors = descriptors;
  }

  /** Adds a round. */
  void add(Pair.Pulled pulled, JsonNode bareTook, long plainNanos) {
    ours.add(pulled.nanos());
    oursWrite.add(pulled.writeNanos());
    bare.add(bareTook.get("nanos").asLong());
    bareSubmit.add(bareTook.get("submit").asLong());
    barePoll.add(bareTook.get("poll").asLong());
    bareDescriptors = bareTook.get("descriptors").asInt();
    plain.add(plainNanos);
  }

  String transport() {
    return transport;
  }

  String shapeName() {
    return shape.name();
  }

  Pattern pattern() {
    return blocks.pattern();
  }

  int count() {
    return blocks.count();
  }

  /** As it stands in file names and figures. */
  String name() {
    return transport
        + "_"
        + shape.name()
        + "_"
        + blocks.count()
        + "_"
        + blocks.pattern().name().toLowerCase(Locale.ROOT);
  }

  private static double median(List<Long> nanos) {
    return new Samples(nanos.stream().mapToDouble(Long::doubleValue).toArray()).median();
  }

  /** Gigabytes (10^9) in a second, of a request from the pull's start to its end. */
  double oursRate() {
    return bytes / median(ours);
  }

  /** The same of the prefiller's write alone. */
  double writeRate() {
    return bytes / median(oursWrite);
  }

  double bareRate() {
    return bytes / median(bare);
  }

  double plainRate() {
    return bytes / median(plain);
  }

  /** One line, for a person who waits. */
  String line() {
    return String.format(
        Locale.ROOT,
        "%-12s %-12s %5d %-10s %7d descs %9.1f MB | pull %9.3f ms %8.1f GB/s | write %9.3f ms |"
            + " bare %9.3f ms %8.1f GB/s (submit %.3f, poll %.3f) | plain %8.1f GB/s |"
            + " x bare %5.2f, x plain %5.3f | %d rounds",
        transport,
        shape.name(),
        blocks.count(),
        blocks.pattern(),
        descriptors,
        bytes / 1e6,
        median(ours) / 1e6,
        oursRate(),
        median(oursWrite) / 1e6,
        median(bare) / 1e6,
        bareRate(),
        median(bareSubmit) / 1e6,
        median(barePoll) / 1e6,
        plainRate(),
        oursRate() / bareRate(),
        oursRate() / plainRate(),
        ours.size());
  }

  /** All of it. */
  Map<String, Object> toMap() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("transport", transport);
    map.put("shape", shape.name());
    map.put("layers", shape.layers());
    map.put("block_bytes", shape.blockBytes());
    map.put("blocks", blocks.count());
    map.put("pattern", blocks.pattern().name());
    map.put("bytes", bytes);
    map.put("descriptors", descriptors);
    map.put("bare_descriptors", bareDescriptors);
    map.put("verified", true);
    map.put("pull_nanos", ours);
    map.put("write_nanos", oursWrite);
    map.put("bare_nanos", bare);
    map.put("bare_submit_nanos", bareSubmit);
    map.put("bare_poll_nanos", barePoll);
    map.put("plain_nanos", plain);
    return map;
  }

  /** The columns of the table. */
  List<String> row() {
    return Arrays.asList(
        transport,
        shape.name(),
        Integer.toString(blocks.count()),
        blocks.pattern().name().toLowerCase(Locale.ROOT),
        Integer.toString(descriptors),
        String.format(Locale.ROOT, "%.2f", median(ours) / 1e6),
        String.format(Locale.ROOT, "%.1f", oursRate()),
        String.format(Locale.ROOT, "%.1f", writeRate()),
        String.format(Locale.ROOT, "%.1f", bareRate()),
        String.format(Locale.ROOT, "%.1f", plainRate()),
        String.format(Locale.ROOT, "%.2f", oursRate() / bareRate()),
        String.format(Locale.ROOT, "%.3f", oursRate() / plainRate()));
  }
}
