package dev.mooncake4j.core.integrity;

import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * The registered memory that this process can read: host segments, found by address. Immutable and
 * thread-safe; every access is checked by the segment itself, so that an address from outside, or
 * an arena that was closed, is an error and never a crash.
 */
public final class HostMemory {
  /** A buffer's length is an int; longer ranges are read in pieces. */
  private static final long MOST_AT_ONCE = 1L << 30;

  private final TreeMap<Long, MemorySegment> byAddress = new TreeMap<>();

  private HostMemory() {}

  /** The host segments among these that threads of ours may read. */
  public static HostMemory of(List<KvMemory> memories) {
    HostMemory host = new HostMemory();
    for (KvMemory memory : memories) {
      MemorySegment segment = memory.segment();
      if (segment != null && isReadableByAll(segment)) {
        host.byAddress.put(memory.address(), segment);
      }
    }
    return host;
  }

  /** Not so for a confined arena, which belongs to the thread that opened it. */
  private static boolean isReadableByAll(MemorySegment segment) {
    Thread nobody = Thread.ofPlatform().unstarted(() -> {});
    return segment.isAccessibleBy(nobody);
  }

  /** Number of segments. */
  public int size() {
    return byAddress.size();
  }

  /**
   * Adds the bytes at an address to a checksum.
   *
   * @return whether they lie within one of the segments and could be read
   */
  boolean addTo(CRC32C sum, long address, long length) {
    MemorySegment segment = find(address, length);
    if (segment == null || !segment.scope().isAlive()) {
      return false;
    }
    long from = address - segment.address();
    long end = from + length;
    while (from < end) {
      long piece = Math.min(end - from, MOST_AT_ONCE);
      sum.update(segment.asSlice(from, piece).asByteBuffer());
      from += piece;
    }
    return true;
  }

  private @Nullable MemorySegment find(long address, long length) {
    Map.Entry<Long, MemorySegment> below = byAddress.floorEntry(address);
    if (below == null || length < 1) {
      return null;
    }
    MemorySegment segment = below.getValue();
    long offset = address - segment.address();
    return offset <= segment.byteSize() - length ? segment : null;
  }
}
