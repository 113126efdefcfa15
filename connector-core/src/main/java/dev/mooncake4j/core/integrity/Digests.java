package dev.mooncake4j.core.integrity;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/** Takes and compares digests: CRC32C over the bytes of a request, in the order of its copies. */
public final class Digests {
  private Digests() {}

  /**
   * The digest of the sources of some copies, to be taken before they are written: if the memory
   * changes while they are, that is found too. Reads every byte.
   *
   * @return {@code null} if a source is not host memory
   */
  public static @Nullable TransferDigest ofSources(
      HostMemory memory, DescriptorList copies, int from, int to) {
    CRC32C sum = new CRC32C();
    long[] ranges = new long[2 * (to - from)];
    for (int i = from; i < to; i++) {
      if (!memory.addTo(sum, copies.source(i), copies.length(i))) {
        return null;
      }
      ranges[2 * (i - from)] = copies.destination(i);
      ranges[2 * (i - from) + 1] = copies.length(i);
    }
    return new TransferDigest(sum.getValue(), ranges);
  }

  /**
   * Reads what has arrived and compares it. Reads every byte.
   *
   * @return what is wrong, or {@code null}
   */
  public static @Nullable String problemWith(HostMemory memory, TransferDigest sent) {
    CRC32C sum = new CRC32C();
    long bytes = 0;
    for (int i = 0; i < sent.rangeCount(); i++) {
      if (!memory.addTo(sum, sent.address(i), sent.length(i))) {
        return "integrity_check: the prefiller says that it has written length="
            + sent.length(i)
            + " at address=0x"
            + Long.toHexString(sent.address(i))
            + ", which is not within the kv memory registered here";
      }
      bytes += sent.length(i);
    }
    if (sum.getValue() == sent.crc32c()) {
      return null;
    }
    return "integrity_check: what arrived is not what was sent, bytes="
        + bytes
        + " crc32c=0x"
        + Long.toHexString(sum.getValue())
        + " sent_crc32c=0x"
        + Long.toHexString(sent.crc32c())
        + ": the request's blocks are not to be used; see whether the prefiller's blocks were"
        + " written to before they were released";
  }
}
