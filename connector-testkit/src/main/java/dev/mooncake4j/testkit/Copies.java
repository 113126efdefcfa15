package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.spi.DescriptorList;

/** A write's descriptors, kept beyond its return: (source, destination, length) each. */
final class Copies {
  /** Which end of a copy. */
  enum Side {
    SOURCE,
    DESTINATION
  }

  private final long[] entries;

  private Copies(long[] entries) {
    this.entries = entries;
  }

  static Copies of(DescriptorList descriptors) {
    long[] entries = new long[Math.multiplyExact(3, descriptors.size())];
    for (int i = 0; i < descriptors.size(); i++) {
      entries[3 * i] = descriptors.source(i);
      entries[3 * i + 1] = descriptors.destination(i);
      entries[3 * i + 2] = descriptors.length(i);
    }
    return new Copies(entries);
  }

  int size() {
    return entries.length / 3;
  }

  long source(int index) {
    return entries[3 * index];
  }

  long destination(int index) {
    return entries[3 * index + 1];
  }

  long address(int index, Side side) {
    return side == Side.SOURCE ? source(index) : destination(index);
  }

  long length(int index) {
    return entries[3 * index + 2];
  }

  String describe(int index, Side side) {
    return (side == Side.SOURCE ? "source" : "destination")
        + "=0x"
        + Long.toHexString(address(index, side))
        + " length="
        + length(index)
        + " descriptor="
        + index;
  }
}
