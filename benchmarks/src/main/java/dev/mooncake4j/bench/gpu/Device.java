package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.MemorySegment;

/**
 * Where the caches of the benchmark lie: on a device, or in host memory as its stand-in. All
 * methods block until the memory is as they say. Thread-safe.
 */
interface Device {

  /** The engine's name for the place. */
  String location();

  /** What it is, for a person. */
  String description();

  /** The address of new memory, kept until the process ends. */
  long allocate(long bytes);

  /** The same memory as the connector takes it. */
  KvMemory memory(long address, long bytes);

  void zero(long address, long bytes);

  void copyIn(long to, MemorySegment from, long bytes);

  void copyOut(MemorySegment to, long from, long bytes);

  /** Host memory that copies to and from the device quickly, kept until the process ends. */
  MemorySegment staging(long bytes);

  /** Nanoseconds that one plain copy on the device takes, from its call to its end. */
  long plainCopyNanos(long to, long from, long bytes);

  /** The device, or host memory in its place. */
  static Device open(boolean hostMemory) {
    return hostMemory ? new HostDevice() : new CudaDevice(new CudaRuntime());
  }
}
