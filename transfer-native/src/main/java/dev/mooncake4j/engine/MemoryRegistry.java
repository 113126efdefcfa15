package dev.mooncake4j.engine;

import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.engine.ffi.TransferEngineC;
import dev.mooncake4j.engine.load.EngineLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The memory that an engine has registered.
 *
 * <p>Overlaps are refused before the engine sees them, since what its releases do with them
 * differs. Changes are made under a lock, one call after the other; writers read an immutable copy
 * and never wait. Thread-safe.
 */
final class MemoryRegistry {
  private static final int REMOTE_ACCESSIBLE = 1;

  private final EngineLibrary library;
  private final MemorySegment engine;
  private final TreeMap<Long, MemoryRange> byAddress = new TreeMap<>();
  private volatile Ranges ranges = new Ranges(new long[0], new long[0], 0);

  MemoryRegistry(EngineLibrary library, MemorySegment engine) {
    this.library = library;
    this.engine = engine;
  }

  /**
   * What is registered, sorted by address.
   *
   * @param starts first addresses
   * @param ends addresses behind the last ones
   * @param bytes the sum of the lengths
   */
  @SuppressWarnings("ArrayRecordComponent") // immutable by use: never changed once published
  record Ranges(long[] starts, long[] ends, long bytes) {

    int count() {
      return starts.length;
    }

    /** Index of the one range that holds all of it, or -1; two neighbours are no range. */
    int find(long address, long length) {
      int low = 0;
      int high = starts.length - 1;
      while (low <= high) {
        int middle = (low + high) >>> 1;
        if (starts[middle] <= address) {
          low = middle + 1;
        } else {
          high = middle - 1;
        }
      }
      return high >= 0 && holds(high, address, length) ? high : -1;
    }

    /** Whether the range at an index holds all of it. */
    boolean holds(int index, long address, long length) {
      long end = ends[index];
      return address >= starts[index] && address < end && length <= end - address;
    }
  }

  /** What is registered now. */
  Ranges ranges() {
    return ranges;
  }

  /** Registers all of it or none. */
  synchronized void register(List<MemoryRange> added) {
    List<MemoryRange> done = new ArrayList<>(added.size());
    try {
      for (MemoryRange range : added) {
        refuseOverlap(range);
        registerNatively(range);
        byAddress.put(range.address(), range);
        done.add(range);
      }
    } catch (TransferEngineException e) {
      for (MemoryRange range : done) {
        byAddress.remove(range.address());
        int code = TransferEngineC.unregisterLocalMemory(engine, pointer(range));
        if (code != 0) {
          e.addSuppressed(refused("unregisterLocalMemory", code, range));
        }
      }
      throw e;
    }
    publish();
  }

  /** Gives registrations back; goes on where one is refused, and throws at the end. */
  synchronized void unregister(List<MemoryRange> removed) {
    List<MemoryRange> known = new ArrayList<>(removed.size());
    TransferEngineException first = null;
    for (MemoryRange range : removed) {
      if (byAddress.remove(range.address(), range)) {
        known.add(range);
      } else {
        first =
            joined(
                first,
                new TransferEngineException(
                    "unregisterLocalMemory",
                    0,
                    range + " is not registered: give back what was registered, as it was",
                    null));
      }
    }
    // No write begins from it any more before the engine lets go of it.
    publish();
    for (MemoryRange range : known) {
      int code = TransferEngineC.unregisterLocalMemory(engine, pointer(range));
      if (code != 0) {
        first = joined(first, refused("unregisterLocalMemory", code, range));
      }
    }
    if (first != null) {
      throw first;
    }
  }

  /** Gives everything back. */
  synchronized void unregisterAll() {
    unregister(new ArrayList<>(byAddress.values()));
  }

  private static TransferEngineException joined(
      @Nullable TransferEngineException first, TransferEngineException next) {
    if (first == null) {
      return next;
    }
    first.addSuppressed(next);
    return first;
  }

  private void refuseOverlap(MemoryRange range) {
    Map.Entry<Long, MemoryRange> before =
        byAddress.lowerEntry(Math.addExact(range.address(), range.length()));
    if (before == null) {
      return;
    }
    MemoryRange other = before.getValue();
    if (other.address() + other.length() > range.address()) {
      throw new TransferEngineException(
          "registerLocalMemory",
          0,
          range + " overlaps " + other + ", which is registered: register each piece once",
          null);
    }
  }

  private void registerNatively(MemoryRange range) {
    int code;
    try (Arena arena = Arena.ofConfined()) {
      code =
          TransferEngineC.registerLocalMemory(
              engine,
              pointer(range),
              range.length(),
              arena.allocateFrom(range.location()),
              REMOTE_ACCESSIBLE);
    }
    if (code != 0) {
      throw refused("registerLocalMemory", code, range);
    }
  }

  private TransferEngineException refused(String operation, int code, MemoryRange range) {
    String hint = "";
    if (!range.location().startsWith("cpu")) {
      String peermem = library.environment("WITH_NVIDIA_PEERMEM");
      hint =
          "; device memory is registered through nvidia-peermem or DMA-BUF, and \"Bad address [14]\""
              + " in the engine's log means that this host wants the other one: WITH_NVIDIA_PEERMEM="
              + (peermem == null ? "unset" : peermem)
              + ", try "
              + ("0".equals(peermem) ? "1 (nvidia-peermem)" : "0 (DMA-BUF)");
    }
    return new TransferEngineException(
        operation, code, range + ": " + library.explained() + hint, null);
  }

  private static MemorySegment pointer(MemoryRange range) {
    return MemorySegment.ofAddress(range.address());
  }

  private void publish() {
    long[] starts = new long[byAddress.size()];
    long[] ends = new long[byAddress.size()];
    long bytes = 0;
    int i = 0;
    for (MemoryRange range : byAddress.values()) {
      starts[i] = range.address();
      ends[i] = range.address() + range.length();
      bytes += range.length();
      i++;
    }
    ranges = new Ranges(starts, ends, bytes);
  }
}
