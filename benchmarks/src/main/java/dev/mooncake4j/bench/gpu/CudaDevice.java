package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.MemorySegment;

/** The first device that the CUDA runtime shows. */
@SuppressWarnings("restricted") // addresses and functions of CUDA's, or of memory allocated here
final class CudaDevice implements Device {
  private final CudaRuntime cuda;
  private final MemorySegment stream;

  CudaDevice(CudaRuntime cuda) {
    this.cuda = cuda;
    this.stream = cuda.newStream();
  }

  @Override
  public String location() {
    return "cuda:0";
  }

  @Override
  public String description() {
    return cuda.description();
  }

  @Override
  public long allocate(long bytes) {
    return cuda.malloc(bytes);
  }

  @Override
  public KvMemory memory(long address, long bytes) {
    return KvMemory.device(address, bytes, location());
  }

  @Override
  public void zero(long address, long bytes) {
    cuda.memset(address, bytes);
    cuda.synchronizeDevice();
  }

  @Override
  public void copyIn(long to, MemorySegment from, long bytes) {
    cuda.memcpy(to, from.address(), bytes);
  }

  @Override
  public void copyOut(MemorySegment to, long from, long bytes) {
    cuda.memcpy(to.address(), from, bytes);
  }

  @Override
  public MemorySegment staging(long bytes) {
    return MemorySegment.ofAddress(cuda.mallocHost(bytes)).reinterpret(bytes);
  }

  @Override
  public long plainCopyNanos(long to, long from, long bytes) {
    long start = System.nanoTime();
    cuda.memcpyAsync(to, from, bytes, stream);
    cuda.synchronize(stream);
    return System.nanoTime() - start;
  }
}
