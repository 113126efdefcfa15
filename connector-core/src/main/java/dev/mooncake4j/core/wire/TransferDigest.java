package dev.mooncake4j.core.wire;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * What a prefiller says of the bytes that it has written for one request; ours alone, and only if
 * the decoder asks for it. Immutable.
 */
public final class TransferDigest {
  private final long crc32c;
  private final long[] ranges;

  /**
   * A digest.
   *
   * @param crc32c of all the bytes, in the order of the ranges; 32 bits
   * @param ranges address and length of each piece at the decoder, in turn; not copied
   */
  public TransferDigest(long crc32c, long[] ranges) {
    if ((ranges.length & 1) != 0) {
      throw new IllegalArgumentException("ranges=" + ranges.length + " are not pairs");
    }
    this.crc32c = crc32c;
    this.ranges = ranges;
  }

  /** The checksum, 32 bits. */
  public long crc32c() {
    return crc32c;
  }

  /** Number of pieces. */
  public int rangeCount() {
    return ranges.length / 2;
  }

  /** Address of a piece at the decoder. */
  public long address(int index) {
    return ranges[2 * index];
  }

  /** Bytes of a piece. */
  public long length(int index) {
    return ranges[2 * index + 1];
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof TransferDigest that
        && crc32c == that.crc32c
        && Arrays.equals(ranges, that.ranges);
  }

  @Override
  public int hashCode() {
    return Long.hashCode(crc32c) * 31 + Arrays.hashCode(ranges);
  }

  @Override
  public String toString() {
    return "crc32c=0x" + Long.toHexString(crc32c) + " ranges=" + rangeCount();
  }

  void write(MessagePackWriter out) {
    out.arrayHeader(2);
    out.integer(crc32c);
    out.arrayHeader(ranges.length);
    for (long value : ranges) {
      out.unsigned(value);
    }
  }

  static TransferDigest read(MessagePackReader in) throws MalformedMessageException {
    int two = in.readArrayHeader();
    if (two != 2) {
      throw in.malformed("a digest has length=" + two + ", not 2");
    }
    long sum = in.readLong();
    long[] ranges = in.readLongs(true);
    if ((ranges.length & 1) != 0) {
      throw in.malformed("a digest's ranges=" + ranges.length + " are not pairs");
    }
    return new TransferDigest(sum, ranges);
  }
}
