package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.MemoryRange;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** The memory that one engine has registered; guarded by its network's lock. */
final class Registrations {
  private final TreeMap<Long, MemoryRange> byAddress = new TreeMap<>();
  private long bytes;

  void add(MemoryRange range) {
    Map.Entry<Long, MemoryRange> before =
        byAddress.lowerEntry(Math.addExact(range.address(), range.length()));
    if (before != null) {
      MemoryRange other = before.getValue();
      if (other.address() + other.length() > range.address()) {
        throw new TransferEngineException(
            "register", -1, range + " overlaps " + other + ": register each piece once", null);
      }
    }
    byAddress.put(range.address(), range);
    bytes += range.length();
  }

  /** Whether it was registered, just so. */
  boolean remove(MemoryRange range) {
    if (!byAddress.remove(range.address(), range)) {
      return false;
    }
    bytes -= range.length();
    return true;
  }

  void clear() {
    byAddress.clear();
    bytes = 0;
  }

  int count() {
    return byAddress.size();
  }

  long bytes() {
    return bytes;
  }

  /** Whether one registered piece holds all of it; two neighbours are no piece, as natively. */
  boolean covers(long address, long length) {
    Map.Entry<Long, MemoryRange> at = byAddress.floorEntry(address);
    if (at == null || length < 1) {
      return false;
    }
    MemoryRange range = at.getValue();
    long offset = address - range.address();
    return offset < range.length() && length <= range.length() - offset;
  }

  /** The first of the copies with a side that is not registered, in words, or {@code null}. */
  @Nullable String findMissing(Copies copies, Copies.Side side) {
    for (int i = 0; i < copies.size(); i++) {
      if (!covers(copies.address(i, side), copies.length(i))) {
        return copies.describe(i, side);
      }
    }
    return null;
  }
}
