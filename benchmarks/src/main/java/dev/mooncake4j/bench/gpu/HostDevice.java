package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Host memory where a device's is expected, to rehearse the benchmark without a GPU. */
@SuppressWarnings("restricted") // addresses and functions of CUDA's, or of memory allocated here
final class HostDevice implements Device {
  private static final long PAGE = 4096;

  @Override
  public String location() {
    return "cpu:0";
  }

  @Override
  public String description() {
    return "host memory in place of a device";
  }

  @Override
  public long allocate(long bytes) {
    return Arena.global().allocate(bytes, PAGE).address();
  }

  @Override
  public KvMemory memory(long address, long bytes) {
    return KvMemory.host(at(address, bytes));
  }

  @Override
  public void zero(long address, long bytes) {
    at(address, bytes).fill((byte) 0);
  }

  @Override
  public void copyIn(long to, MemorySegment from, long bytes) {
    MemorySegment.copy(from, 0, at(to, bytes), 0, bytes);
  }

  @Override
  public void copyOut(MemorySegment to, long from, long bytes) {
    MemorySegment.copy(at(from, bytes), 0, to, 0, bytes);
  }

  @Override
  public MemorySegment staging(long bytes) {
    return Arena.global().allocate(bytes, PAGE);
  }

  @Override
  public long plainCopyNanos(long to, long from, long bytes) {
    long start = System.nanoTime();
    MemorySegment.copy(at(from, bytes), 0, at(to, bytes), 0, bytes);
    return System.nanoTime() - start;
  }

  private static MemorySegment at(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }
}
