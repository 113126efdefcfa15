package dev.mooncake4j.connector.spi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * A growing list of copies, each (source address, destination address, length), outside the heap.
 *
 * <p>Neighbours on both sides are merged as they are added. Made to be filled, written and cleared
 * again and again by one thread without allocating; it keeps the memory of its largest use. One
 * thread at a time. Close it to free the memory.
 */
public final class DescriptorList implements AutoCloseable {
  /** Bytes of one entry: three longs in native order. */
  private static final long ENTRY = 24;

  private static final int FIRST_CAPACITY = 256;
  private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;

  private Arena arena;
  private MemorySegment entries;
  private int capacity;
  private int size;
  private int fence;
  private long bytes;

  // Of the last entry, where there is one: each is looked at, and a field costs less than memory.
  private long sourceEnd;
  private long destinationEnd;
  private long lastLength;

  /** An empty list. */
  public DescriptorList() {
    this(FIRST_CAPACITY);
  }

  /** An empty list with room for {@code capacity} descriptors, at least 1. */
  public DescriptorList(int capacity) {
    this.capacity = Math.max(1, capacity);
    this.arena = Arena.ofShared();
    this.entries = arena.allocate(ENTRY * this.capacity, 8);
  }

  /**
   * Adds a copy, or makes the last one longer if this one goes on where it ends on both sides.
   *
   * @param source address here
   * @param destination address at the peer
   * @param length bytes, at least 1
   */
  public void add(long source, long destination, long length) {
    int n = size;
    if (n > fence && source == sourceEnd && destination == destinationEnd) {
      lastLength += length;
      entries.set(LONG, (n - 1) * ENTRY + 16, lastLength);
      sourceEnd += length;
      destinationEnd += length;
      bytes += length;
      return;
    }
    if (n == capacity) {
      grow();
    }
    long at = n * ENTRY;
    entries.set(LONG, at, source);
    entries.set(LONG, at + 8, destination);
    entries.set(LONG, at + 16, length);
    size = n + 1;
    bytes += length;
    sourceEnd = source + length;
    destinationEnd = destination + length;
    lastLength = length;
  }

  /** What is added from here on is not merged with what was added before. */
  public void fence() {
    fence = size;
  }

  private void grow() {
    if (capacity > (Integer.MAX_VALUE >> 1)) {
      throw new IllegalStateException("descriptors=" + size + ": a list takes at most 2^30");
    }
    int larger = capacity << 1;
    Arena next = Arena.ofShared();
    MemorySegment moved = next.allocate(ENTRY * larger, 8);
    MemorySegment.copy(entries, 0, moved, 0, ENTRY * size);
    arena.close();
    arena = next;
    entries = moved;
    capacity = larger;
  }

  /** Number of descriptors. */
  public int size() {
    return size;
  }

  /** Sum of their lengths in bytes. */
  public long bytes() {
    return bytes;
  }

  /** Source address of a descriptor. */
  public long source(int index) {
    return entries.get(LONG, check(index) * ENTRY);
  }

  /** Destination address of a descriptor. */
  public long destination(int index) {
    return entries.get(LONG, check(index) * ENTRY + 8);
  }

  /** Length of a descriptor in bytes. */
  public long length(int index) {
    return entries.get(LONG, check(index) * ENTRY + 16);
  }

  private int check(int index) {
    if (index < 0 || index >= size) {
      throw new IndexOutOfBoundsException("index=" + index + ", size=" + size);
    }
    return index;
  }

  /** Empties the list and keeps its memory. */
  public void clear() {
    size = 0;
    fence = 0;
    bytes = 0;
  }

  /** Frees the memory; the list must not be used afterwards. Idempotent. */
  @Override
  public void close() {
    if (arena.scope().isAlive()) {
      arena.close();
    }
    size = 0;
    capacity = 0;
  }
}
