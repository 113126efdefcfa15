package dev.mooncake4j.connector;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * One piece of memory that holds KV: a native segment of this process, or an address on a device.
 *
 * <p>The connector registers it with the transfer engine and keeps the segment reachable; the arena
 * behind it must stay open until the worker is closed or has given the registration back.
 */
public final class KvMemory {
  private final @Nullable MemorySegment segment;
  private final long address;
  private final long length;
  private final String location;

  private KvMemory(@Nullable MemorySegment segment, long address, long length, String location) {
    this.segment = segment;
    this.address = address;
    this.length = length;
    this.location = location;
  }

  /**
   * Host memory.
   *
   * @param segment an off-heap segment of at least one byte
   * @throws IllegalArgumentException if the segment is on the heap or empty, or its arena is closed
   */
  public static KvMemory host(MemorySegment segment) {
    if (!segment.scope().isAlive()) {
      throw new IllegalArgumentException(
          "kv memory at address=" + segment.address() + ": its arena is closed, keep it open");
    }
    if (!segment.isNative()) {
      throw new IllegalArgumentException(
          "kv memory is a heap segment: allocate it from an Arena, outside the heap");
    }
    return new KvMemory(
        segment,
        checkAddress(segment.address()),
        checkLength(segment.address(), segment.byteSize()),
        "cpu:0");
  }

  /**
   * Device memory.
   *
   * @param address the device pointer, unsigned, below 2^63
   * @param length bytes, at least 1
   * @param location the engine's name for the place, as {@code cuda:0}
   */
  public static KvMemory device(long address, long length, String location) {
    if (location.isEmpty()) {
      throw new IllegalArgumentException("location is empty: give one such as cuda:0");
    }
    return new KvMemory(null, checkAddress(address), checkLength(address, length), location);
  }

  private static long checkAddress(long address) {
    if (address <= 0) {
      throw new IllegalArgumentException(
          "address=" + Long.toUnsignedString(address) + " is not between 1 and 2^63 - 1");
    }
    return address;
  }

  private static long checkLength(long address, long length) {
    if (length < 1 || address + length < 0) {
      throw new IllegalArgumentException(
          "length=" + length + " at address=" + address + " is empty or passes 2^63");
    }
    return length;
  }

  /** The first byte's address. */
  public long address() {
    return address;
  }

  /** Length in bytes. */
  public long length() {
    return length;
  }

  /** The engine's name for the place: {@code cpu:0}, {@code cuda:0}. */
  public String location() {
    return location;
  }

  /** The host segment, or {@code null} for device memory. */
  public @Nullable MemorySegment segment() {
    return segment;
  }

  @Override
  public String toString() {
    return "KvMemory[address=0x"
        + Long.toHexString(address)
        + ", length="
        + length
        + ", location="
        + location
        + "]";
  }
}
