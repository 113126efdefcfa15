package dev.mooncake4j.bench.gpu;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.spi.DescriptorList;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A paged cache on a device: the layers one after the other, each with all its blocks.
 *
 * <p>Every word of a source's block tells its layer, its block and its place, so that a reader
 * knows what must be where without asking the source. One thread at a time.
 */
final class Cache {
  private static final long STEP = 0x9E3779B97F4A7C15L;
  private static final long CHUNK = 32L << 20;
  private static final int THREADS = Math.min(8, Runtime.getRuntime().availableProcessors());

  private final Device device;
  private final Shape shape;
  private final int blocks;
  private final long address;
  private final List<MemorySegment> staging = new ArrayList<>();

  /** A cache with {@code blocks} blocks in each layer, of unknown content. */
  Cache(Device device, Shape shape, int blocks) {
    this.device = device;
    this.shape = shape;
    this.blocks = blocks;
    this.address = device.allocate(shape.bytes(blocks));
  }

  long address() {
    return address;
  }

  long bytes() {
    return shape.bytes(blocks);
  }

  int blocks() {
    return blocks;
  }

  KvCacheLayout layout() {
    return KvCacheLayout.layersInOne(
        device.memory(address, bytes()), shape.layerNames(), shape.blockBytes(), blocks);
  }

  void zero() {
    device.zero(address, bytes());
  }

  /** Fills it with what a source has. */
  void fill() {
    forEachChunk(
        (layer, first, count, memory) -> {
          for (int b = 0; b < count; b++) {
            long value = firstWord(layer, first + b);
            long end = (long) (b + 1) * shape.blockBytes();
            for (long at = (long) b * shape.blockBytes(); at < end; at += 8) {
              memory.set(JAVA_LONG, at, value);
              value += STEP;
            }
          }
          device.copyIn(addressOf(layer, first), memory, (long) count * shape.blockBytes());
          return 0;
        });
  }

  /** Words that differ from what must be there after a transfer into a zeroed cache. */
  long wrongWords(int[] sourceIds, int[] ids) {
    int[] sourceOf = new int[blocks];
    Arrays.fill(sourceOf, -1);
    for (int i = 0; i < ids.length; i++) {
      sourceOf[ids[i]] = sourceIds[i];
    }
    return forEachChunk(
        (layer, first, count, memory) -> {
          device.copyOut(memory, addressOf(layer, first), (long) count * shape.blockBytes());
          long wrong = 0;
          for (int b = 0; b < count; b++) {
            int source = sourceOf[first + b];
            long value = source < 0 ? 0 : firstWord(layer, source);
            long step = source < 0 ? 0 : STEP;
            long end = (long) (b + 1) * shape.blockBytes();
            for (long at = (long) b * shape.blockBytes(); at < end; at += 8) {
              if (memory.get(JAVA_LONG, at) != value) {
                wrong++;
              }
              value += step;
            }
          }
          return wrong;
        });
  }

  /** The copies of a transfer to a cache of this shape, merged as the connector merges them. */
  void describe(int[] ids, long targetAddress, int[] targetIds, DescriptorList into) {
    into.clear();
    long size = shape.blockBytes();
    for (int layer = 0; layer < shape.layers(); layer++) {
      long source = addressOf(layer, 0);
      long target = targetAddress + (source - address);
      for (int i = 0; i < ids.length; i++) {
        into.add(source + ids[i] * size, target + targetIds[i] * size, size);
      }
    }
  }

  private long addressOf(int layer, int block) {
    return address + ((long) layer * blocks + block) * shape.blockBytes();
  }

  private static long firstWord(int layer, int block) {
    long z = ((((long) layer + 1) << 32) | block) * 0xBF58476D1CE4E5B9L;
    return z ^ (z >>> 31);
  }

  /** What is done with one piece of one layer; answers a count. */
  private interface Piece {
    long take(int layer, int first, int count, MemorySegment memory);
  }

  /** Does it for all pieces, by several threads; the sum of the answers. */
  private long forEachChunk(Piece piece) {
    int each = (int) Math.max(1, Math.min(blocks, CHUNK / shape.blockBytes()));
    int inLayer = Math.ceilDiv(blocks, each);
    int all = inLayer * shape.layers();
    AtomicInteger next = new AtomicInteger();
    while (staging.size() < THREADS) {
      staging.add(device.staging((long) each * shape.blockBytes()));
    }
    long sum = 0;
    try (ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
      List<Future<Long>> parts = new ArrayList<>();
      for (MemorySegment memory : staging) {
        parts.add(
            threads.submit(
                () -> {
                  long total = 0;
                  for (int i = next.getAndIncrement(); i < all; i = next.getAndIncrement()) {
                    int first = i % inLayer * each;
                    total += piece.take(i / inLayer, first, Math.min(each, blocks - first), memory);
                  }
                  return total;
                }));
      }
      for (Future<Long> part : parts) {
        sum += part.get();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    } catch (ExecutionException e) {
      throw new IllegalStateException(e.getCause());
    }
    return sum;
  }
}
