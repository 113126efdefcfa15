package dev.mooncake4j.bootstrap;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.util.ResourceLeakDetector;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Keeps what Netty would only log; put in its place by a system property of the tests' JVM. */
public final class RecordingLeakDetector<T> extends ResourceLeakDetector<T> {
  private static final List<String> leaks = new CopyOnWriteArrayList<>();

  /** Called by Netty. */
  @SuppressWarnings("deprecation") // The signature that Netty looks for.
  public RecordingLeakDetector(Class<?> resourceType, int samplingInterval, long maxActive) {
    super(resourceType, samplingInterval, maxActive);
  }

  /** Called by Netty. */
  @SuppressWarnings("deprecation") // The signature that Netty looks for.
  public RecordingLeakDetector(Class<?> resourceType, int samplingInterval) {
    super(resourceType, samplingInterval);
  }

  @Override
  protected boolean needReport() {
    return true;
  }

  @Override
  protected void reportTracedLeak(String resourceType, String records) {
    leaks.add(resourceType + records);
  }

  @Override
  protected void reportUntracedLeak(String resourceType) {
    leaks.add(resourceType);
  }

  /** What was collected as garbage without having been released. */
  static List<String> leaks() {
    System.gc();
    // A leak is reported when the next buffer is made.
    ByteBuf buffer = new UnpooledByteBufAllocator(true).directBuffer(1);
    buffer.release();
    return List.copyOf(leaks);
  }
}
