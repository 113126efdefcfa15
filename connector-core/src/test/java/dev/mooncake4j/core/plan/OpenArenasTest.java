package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import dev.mooncake4j.connector.KvMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What is found of arenas that a server closes too early. */
class OpenArenasTest {
  private static KvCacheRegion region(String layer, KvMemory memory, long offset) {
    return KvCacheRegion.of(layer, 0, memory, offset, 32, 4);
  }

  @Test
  void theFirstRegionOfTheClosedOneIsNamed() {
    try (Arena first = Arena.ofShared()) {
      Arena second = Arena.ofShared();
      MemorySegment both = second.allocate(256, 64);
      OpenArenas arenas =
          OpenArenas.of(
              new KvCacheLayout(
                  List.of(
                      region("a", KvMemory.host(first.allocate(128, 64)), 0),
                      region("b", KvMemory.host(both.asSlice(0, 128)), 0),
                      region("c", KvMemory.host(both.asSlice(128)), 0))));
      assertThat(arenas.closed()).isNull();
      second.close();
      assertThat(arenas.closed())
          .contains("layer=b")
          .contains("address=0x" + Long.toHexString(both.address()))
          .contains("is closed: keep it open");
    }
  }

  @Test
  void ofMemoryOnADeviceNothingCanBeTold() {
    KvMemory device = KvMemory.device(0x7f00_0000_0000L, 128, "cuda:0");
    assertThat(OpenArenas.of(new KvCacheLayout(List.of(region("a", device, 0)))).closed()).isNull();
  }

  @Test
  void aLookAllocatesNothing() {
    try (Arena arena = Arena.ofShared()) {
      KvMemory memory = KvMemory.host(arena.allocate(128 * 100, 64));
      OpenArenas arenas =
          OpenArenas.of(
              new KvCacheLayout(
                  java.util.stream.IntStream.range(0, 100)
                      .mapToObj(i -> region("layer-" + i, memory, 128L * i))
                      .toList()));
      ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
      arenas.closed();
      threads.getCurrentThreadAllocatedBytes();
      long before = threads.getCurrentThreadAllocatedBytes();
      for (int i = 0; i < 1000; i++) {
        arenas.closed();
      }
      assertThat(threads.getCurrentThreadAllocatedBytes() - before)
          .as("bytes for 1000 looks at 100 regions")
          .isLessThan(16_000);
    }
  }
}
