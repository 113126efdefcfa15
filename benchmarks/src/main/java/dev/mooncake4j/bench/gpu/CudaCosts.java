package dev.mooncake4j.bench.gpu;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.mooncake4j.connector.spi.DescriptorList;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * What many small copies on the device cost without any engine, to see what bounds the engine: by
 * one call each or all in one call, on one stream or several, by one thread or several; and what it
 * costs to ask a stream whether it is done. The copies go within one process. One thread at a time.
 */
final class CudaCosts {
  private static final int QUERIES = 20_000;

  private final CudaRuntime cuda;
  private final int count;
  private final long[] from;
  private final long[] to;
  private final long[] length;

  /** Of the copies of a list, with the targets replaced by memory of this process. */
  CudaCosts(CudaRuntime cuda, DescriptorList list) {
    this.cuda = cuda;
    this.count = list.size();
    this.from = new long[count];
    this.to = new long[count];
    this.length = new long[count];
    long scratch = cuda.malloc(list.bytes());
    long at = scratch;
    List<Integer> order = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      order.add(i);
    }
    java.util.Collections.shuffle(order, new java.util.Random(1));
    for (int i : order) {
      from[i] = list.source(i);
      length[i] = list.length(i);
      to[i] = at;
      at += length[i];
    }
  }

  /** What runs in each of several threads. */
  private interface Part {
    void run(int index, int first, int end, MemorySegment stream);
  }

  /** Median nanoseconds of each way; the names say threads and streams. */
  Map<String, ?> measure(int rounds) {
    Map<String, Object> results = new LinkedHashMap<>();
    results.put("descriptors", count);
    for (int threads : new int[] {1, 2, 4, 8, 16}) {
      results.put("copy_each_threads_" + threads, median(rounds, threads, this::copyEach));
      results.put(
          "copy_batch_threads_" + threads,
          median(rounds, threads, (i, f, e, s) -> batch(f, e, 0, s)));
    }
    results.put(
        "copy_batch_engines_threads_1", median(rounds, 1, (i, f, e, s) -> batch(f, e, 1, s)));
    results.put(
        "copy_batch_engines_threads_8", median(rounds, 8, (i, f, e, s) -> batch(f, e, 1, s)));
    results.put("one_thread_streams_8", median(rounds, 1, this::copyOverStreams));
    for (int threads : new int[] {1, 4, 16}) {
      long nanos = median(rounds, threads, (i, f, e, s) -> query(s));
      results.put("query_threads_" + threads + "_nanos_each", nanos / QUERIES);
    }
    return results;
  }

  private void copyEach(int index, int first, int end, MemorySegment stream) {
    for (int i = first; i < end; i++) {
      cuda.memcpyAsync(to[i], from[i], length[i], stream);
    }
    cuda.synchronize(stream);
  }

  private void copyOverStreams(int index, int first, int end, MemorySegment stream) {
    MemorySegment[] streams = new MemorySegment[8];
    Arrays.setAll(streams, i -> cuda.newStream());
    for (int i = first; i < end; i++) {
      cuda.memcpyAsync(to[i], from[i], length[i], streams[i % streams.length]);
    }
    for (MemorySegment each : streams) {
      cuda.synchronize(each);
    }
  }

  private void batch(int first, int end, int flags, MemorySegment stream) {
    int n = end - first;
    try (Arena arena = Arena.ofConfined()) {
      cuda.memcpyBatchAsync(
          longs(arena, to, first, n),
          longs(arena, from, first, n),
          longs(arena, length, first, n),
          n,
          flags,
          stream);
      cuda.synchronize(stream);
    }
  }

  private static MemorySegment longs(Arena arena, long[] values, int first, int n) {
    MemorySegment memory = arena.allocate(JAVA_LONG, n);
    MemorySegment.copy(values, first, memory, JAVA_LONG, 0, n);
    return memory;
  }

  private void query(MemorySegment stream) {
    boolean done = true;
    for (int i = 0; i < QUERIES; i++) {
      done &= cuda.isDone(stream);
    }
    if (!done) {
      throw new IllegalStateException("an idle stream is not done");
    }
  }

  private long median(int rounds, int threads, Part part) {
    long[] nanos = new long[rounds];
    for (int round = -1; round < rounds; round++) {
      long took = once(threads, part);
      if (round >= 0) {
        nanos[round] = took;
      }
    }
    Arrays.sort(nanos);
    return nanos[rounds / 2];
  }

  private long once(int threads, Part part) {
    CountDownLatch go = new CountDownLatch(1);
    List<Thread> running = new ArrayList<>();
    List<Throwable> failures = new ArrayList<>();
    for (int t = 0; t < threads; t++) {
      int index = t;
      int first = (int) ((long) count * t / threads);
      int end = (int) ((long) count * (t + 1) / threads);
      MemorySegment stream = cuda.newStream();
      running.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      go.await();
                      part.run(index, first, end, stream);
                    } catch (InterruptedException | RuntimeException e) {
                      synchronized (failures) {
                        failures.add(e);
                      }
                    }
                  }));
    }
    long start = System.nanoTime();
    go.countDown();
    try {
      for (Thread thread : running) {
        thread.join();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    long took = System.nanoTime() - start;
    synchronized (failures) {
      if (!failures.isEmpty()) {
        throw new IllegalStateException(failures.getFirst());
      }
    }
    return took;
  }
}
