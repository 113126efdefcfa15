package dev.mooncake4j.bench.gpu;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.List;

/**
 * The few calls of the CUDA runtime that the benchmark makes, on the first device. Only the
 * benchmark calls CUDA: the library moves device memory without it.
 *
 * <p>Every call throws {@link IllegalStateException} with CUDA's text where it fails. Device
 * pointers are longs. Thread-safe.
 */
@SuppressWarnings("restricted") // addresses and functions of CUDA's, or of memory allocated here
final class CudaRuntime {
  /** The runtime tells the direction by the addresses. */
  private static final int KIND_DEFAULT = 4;

  private static final int STREAM_NON_BLOCKING = 1;
  private static final int NOT_READY = 600;
  private static final int SOURCE_IN_STREAM_ORDER = 1;

  /** {@code cudaMemcpyAttributes}: order, two locations of two ints each, flags. */
  private static final long ATTRIBUTES = 24;

  private static final List<String> NAMES =
      List.of("libcudart.so.13", "libcudart.so.12", "libcudart.so");

  private final SymbolLookup library;
  private final MethodHandle malloc;
  private final MethodHandle mallocHost;
  private final MethodHandle memset;
  private final MethodHandle memcpy;
  private final MethodHandle memcpyAsync;
  private final MethodHandle memcpyBatchAsync;
  private final MethodHandle streamCreate;
  private final MethodHandle streamSynchronize;
  private final MethodHandle streamQuery;
  private final MethodHandle deviceSynchronize;
  private final MethodHandle memGetInfo;
  private final MethodHandle runtimeVersion;
  private final MethodHandle driverVersion;

  CudaRuntime() {
    library = open();
    malloc = call("cudaMalloc", ADDRESS, JAVA_LONG);
    mallocHost = call("cudaMallocHost", ADDRESS, JAVA_LONG);
    memset = call("cudaMemset", JAVA_LONG, JAVA_INT, JAVA_LONG);
    memcpy = call("cudaMemcpy", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT);
    memcpyAsync = call("cudaMemcpyAsync", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, ADDRESS);
    memcpyBatchAsync =
        call(
            "cudaMemcpyBatchAsync",
            ADDRESS,
            ADDRESS,
            ADDRESS,
            JAVA_LONG,
            ADDRESS,
            ADDRESS,
            JAVA_LONG,
            ADDRESS);
    streamCreate = call("cudaStreamCreateWithFlags", ADDRESS, JAVA_INT);
    streamSynchronize = call("cudaStreamSynchronize", ADDRESS);
    streamQuery = call("cudaStreamQuery", ADDRESS);
    deviceSynchronize = call("cudaDeviceSynchronize");
    memGetInfo = call("cudaMemGetInfo", ADDRESS, ADDRESS);
    runtimeVersion = call("cudaRuntimeGetVersion", ADDRESS);
    driverVersion = call("cudaDriverGetVersion", ADDRESS);
  }

  private static SymbolLookup open() {
    StringBuilder tried = new StringBuilder();
    for (String name : NAMES) {
      try {
        return SymbolLookup.libraryLookup(name, Arena.global());
      } catch (IllegalArgumentException e) {
        tried.append(tried.isEmpty() ? "" : "; ").append(e.getMessage());
      }
    }
    throw new IllegalStateException(
        "no CUDA runtime can be opened: put its folder on LD_LIBRARY_PATH; tried: " + tried);
  }

  private MethodHandle call(String function, MemoryLayout... arguments) {
    return Linker.nativeLinker()
        .downcallHandle(library.findOrThrow(function), FunctionDescriptor.of(JAVA_INT, arguments));
  }

  /** Free and total memory, and the versions. */
  String description() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment free = arena.allocate(JAVA_LONG);
      MemorySegment total = arena.allocate(JAVA_LONG);
      MemorySegment runtime = arena.allocate(JAVA_INT);
      MemorySegment driver = arena.allocate(JAVA_INT);
      check("cudaMemGetInfo", (int) memGetInfo.invokeExact(free, total));
      check("cudaRuntimeGetVersion", (int) runtimeVersion.invokeExact(runtime));
      check("cudaDriverGetVersion", (int) driverVersion.invokeExact(driver));
      return "device 0, "
          + (free.get(JAVA_LONG, 0) >> 20)
          + " of "
          + (total.get(JAVA_LONG, 0) >> 20)
          + " MiB free, runtime "
          + runtime.get(JAVA_INT, 0)
          + ", driver "
          + driver.get(JAVA_INT, 0);
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  long malloc(long bytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment into = arena.allocate(JAVA_LONG);
      check("cudaMalloc of " + bytes + " bytes", (int) malloc.invokeExact(into, bytes));
      return into.get(JAVA_LONG, 0);
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  long mallocHost(long bytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment into = arena.allocate(JAVA_LONG);
      check("cudaMallocHost of " + bytes + " bytes", (int) mallocHost.invokeExact(into, bytes));
      return into.get(JAVA_LONG, 0);
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  /** Zeroes; {@link #synchronizeDevice} tells when it is done. */
  void memset(long address, long bytes) {
    try {
      check("cudaMemset", (int) memset.invokeExact(address, 0, bytes));
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  /** Copies between host and device, or on the device; done when it returns. */
  void memcpy(long to, long from, long bytes) {
    try {
      check("cudaMemcpy", (int) memcpy.invokeExact(to, from, bytes, KIND_DEFAULT));
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  void memcpyAsync(long to, long from, long bytes, MemorySegment stream) {
    try {
      check(
          "cudaMemcpyAsync", (int) memcpyAsync.invokeExact(to, from, bytes, KIND_DEFAULT, stream));
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  /**
   * Many copies in one call, as the engine makes them.
   *
   * @param to addresses, {@code count} longs, as {@code from} and {@code bytes}
   * @param flags 0, or 1 to prefer the copy engines
   */
  void memcpyBatchAsync(
      MemorySegment to,
      MemorySegment from,
      MemorySegment bytes,
      long count,
      int flags,
      MemorySegment stream) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment attributes = arena.allocate(ATTRIBUTES, 8);
      attributes.set(JAVA_INT, 0, SOURCE_IN_STREAM_ORDER);
      attributes.set(JAVA_INT, ATTRIBUTES - 4, flags);
      MemorySegment first = arena.allocate(JAVA_LONG);
      check(
          "cudaMemcpyBatchAsync",
          (int)
              memcpyBatchAsync.invokeExact(to, from, bytes, count, attributes, first, 1L, stream));
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  /** A stream of its own, kept until the process ends. */
  MemorySegment newStream() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment into = arena.allocate(ADDRESS);
      check("cudaStreamCreateWithFlags", (int) streamCreate.invokeExact(into, STREAM_NON_BLOCKING));
      return into.get(ADDRESS, 0);
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  void synchronize(MemorySegment stream) {
    try {
      check("cudaStreamSynchronize", (int) streamSynchronize.invokeExact(stream));
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  /** Whether all that was given to a stream is done. */
  boolean isDone(MemorySegment stream) {
    try {
      int code = (int) streamQuery.invokeExact(stream);
      if (code == NOT_READY) {
        return false;
      }
      check("cudaStreamQuery", code);
      return true;
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  void synchronizeDevice() {
    try {
      check("cudaDeviceSynchronize", (int) deviceSynchronize.invokeExact());
    } catch (Throwable e) {
      throw thrown(e);
    }
  }

  private void check(String what, int code) throws Throwable {
    if (code != 0) {
      MethodHandle text =
          Linker.nativeLinker()
              .downcallHandle(
                  library.findOrThrow("cudaGetErrorString"),
                  FunctionDescriptor.of(ADDRESS, JAVA_INT));
      MemorySegment chars = (MemorySegment) text.invokeExact(code);
      throw new IllegalStateException(
          what + ": code=" + code + " " + chars.reinterpret(1 << 10).getString(0));
    }
  }

  private static RuntimeException thrown(Throwable e) {
    if (e instanceof RuntimeException known) {
      return known;
    }
    if (e instanceof Error error) {
      throw error;
    }
    return new IllegalStateException(e);
  }
}
