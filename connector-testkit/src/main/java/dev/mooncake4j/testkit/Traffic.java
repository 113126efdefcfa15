package dev.mooncake4j.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.MemoryRange;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * Memory of a sender and of a receiver, with a model of what the receiver's should hold. One thread
 * at a time.
 */
final class Traffic {
  private static final Duration ARRIVAL_BOUND = Duration.ofSeconds(10);

  private final MemorySegment source;
  private final MemorySegment destination;
  private final MemorySegment before;
  private final MemorySegment expected;

  /** Two pieces of {@code bytes}, each filled with other random bytes. */
  Traffic(Arena arena, long bytes, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    source = filled(arena, bytes, random);
    destination = filled(arena, bytes, random);
    before = arena.allocate(bytes, 64).copyFrom(destination);
    expected = arena.allocate(bytes, 64).copyFrom(destination);
  }

  private static MemorySegment filled(Arena arena, long bytes, SplittableRandom random) {
    MemorySegment segment = arena.allocate(bytes, 64);
    long i = 0;
    for (; i + 8 <= bytes; i += 8) {
      segment.set(ValueLayout.JAVA_LONG, i, random.nextLong());
    }
    for (; i < bytes; i++) {
      segment.set(ValueLayout.JAVA_BYTE, i, (byte) random.nextInt());
    }
    return segment;
  }

  MemoryRange sourceRange() {
    return range(source);
  }

  MemoryRange destinationRange() {
    return range(destination);
  }

  static MemoryRange range(MemorySegment segment) {
    return new MemoryRange(segment.address(), segment.byteSize(), "cpu:0");
  }

  MemorySegment source() {
    return source;
  }

  MemorySegment destination() {
    return destination;
  }

  /** Adds a copy to the list and to the model. */
  void add(DescriptorList list, long from, long to, long length) {
    list.add(source.address() + from, destination.address() + to, length);
    MemorySegment.copy(source, from, expected, to, length);
  }

  /** Adds a copy to the list alone, as one that must not happen, or may stop half-way. */
  void addUnexpected(DescriptorList list, long from, long to, long length) {
    list.add(source.address() + from, destination.address() + to, length);
  }

  /**
   * Every byte that was to be written is there, and no other has changed.
   *
   * @param provesArrival whether they must be there at once, or only soon
   */
  void assertArrived(boolean provesArrival) {
    long deadline = System.nanoTime() + ARRIVAL_BOUND.toNanos();
    long at = destination.mismatch(expected);
    while (at >= 0 && !provesArrival && System.nanoTime() - deadline < 0) {
      LockSupport.parkNanos(1_000_000);
      at = destination.mismatch(expected);
    }
    assertThat(at).as("first byte of the destination that is not as expected").isEqualTo(-1);
  }

  /** No byte has changed. */
  void assertUntouched() {
    assertThat(destination.mismatch(before)).as("first byte that was written to").isEqualTo(-1);
  }

  /** Every byte is as it was before, or as it was to be written. */
  void assertPartlyArrivedAtMost() {
    for (long i = 0; i < destination.byteSize(); i++) {
      byte now = destination.get(ValueLayout.JAVA_BYTE, i);
      if (now != before.get(ValueLayout.JAVA_BYTE, i)
          && now != expected.get(ValueLayout.JAVA_BYTE, i)) {
        assertThat(i).as("first byte that is neither the old nor the new one").isEqualTo(-1);
      }
    }
  }
}
