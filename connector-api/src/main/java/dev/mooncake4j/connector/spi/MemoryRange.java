package dev.mooncake4j.connector.spi;

/**
 * A piece of memory as an engine registers it.
 *
 * @param address first byte, 1 to 2^63 - 1
 * @param length bytes, at least 1
 * @param location {@code cpu:0}, {@code cuda:0}, …
 */
public record MemoryRange(long address, long length, String location) {

  /** Checks the ranges. */
  public MemoryRange {
    if (address <= 0 || length < 1 || address + length < 0) {
      throw new IllegalArgumentException(
          "address="
              + Long.toUnsignedString(address)
              + ", length="
              + length
              + " is empty or passes 2^63: register memory of at least one byte");
    }
  }
}
