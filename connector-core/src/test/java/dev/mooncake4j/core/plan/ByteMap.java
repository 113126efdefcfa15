package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.spi.DescriptorList;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * Copies as what they do: which address every byte goes to. Two lists of copies that are cut or
 * ordered differently but do the same are equal.
 */
final class ByteMap {

  /** A stretch of bytes that keeps its distance to its source and can be made no longer. */
  record Interval(long destination, long source, long length) {}

  private final List<Interval> intervals;
  private final long bytes;

  private ByteMap(List<Interval> raw) {
    bytes = raw.stream().mapToLong(Interval::length).sum();
    // By distance first: then stretches that touch are neighbours, whatever else overlaps them.
    List<Interval> sorted = new ArrayList<>(raw);
    sorted.sort(
        Comparator.comparingLong((Interval i) -> i.destination() - i.source())
            .thenComparingLong(Interval::destination));
    intervals = new ArrayList<>();
    for (Interval next : sorted) {
      int at = intervals.size() - 1;
      if (at >= 0) {
        Interval last = intervals.get(at);
        if (last.destination() - last.source() == next.destination() - next.source()
            && next.destination() <= last.destination() + last.length()) {
          long end =
              Math.max(last.destination() + last.length(), next.destination() + next.length());
          intervals.set(
              at, new Interval(last.destination(), last.source(), end - last.destination()));
          continue;
        }
      }
      intervals.add(next);
    }
    intervals.sort(
        Comparator.comparingLong(Interval::destination).thenComparingLong(Interval::source));
  }

  static ByteMap of(DescriptorList list) {
    List<Interval> raw = new ArrayList<>();
    for (int i = 0; i < list.size(); i++) {
      raw.add(new Interval(list.destination(i), list.source(i), list.length(i)));
    }
    return new ByteMap(raw);
  }

  static ByteMap of(long[] sources, long[] destinations, long[] lengths) {
    List<Interval> raw = new ArrayList<>();
    for (int i = 0; i < sources.length; i++) {
      raw.add(new Interval(destinations[i], sources[i], lengths[i]));
    }
    return new ByteMap(raw);
  }

  List<Interval> intervals() {
    return intervals;
  }

  /** Bytes copied, those copied twice counted twice. */
  long bytes() {
    return bytes;
  }

  /** Whether some address is written twice. */
  boolean overlaps() {
    long end = Long.MIN_VALUE;
    long distinct = 0;
    for (Interval i : intervals) {
      if (i.destination() < end) {
        return true;
      }
      end = i.destination() + i.length();
      distinct += i.length();
    }
    return distinct != bytes;
  }
}
