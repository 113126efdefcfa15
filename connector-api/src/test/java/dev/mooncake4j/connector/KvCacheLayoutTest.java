package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The limits of memory and regions: nothing unchecked may reach native code. */
class KvCacheLayoutTest {
  private static final long MAX = Long.MAX_VALUE;

  private static KvMemory device(long address, long length) {
    return KvMemory.device(address, length, "cuda:0");
  }

  private static KvCacheRegion region(
      KvMemory memory, long offset, long stride, long bytes, long count) {
    return new KvCacheRegion("l0", 0, 0, memory, offset, stride, bytes, count, List.of(), -1);
  }

  @Test
  void hostMemoryIsThatOfItsSegment() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment segment = arena.allocate(100);
      KvMemory memory = KvMemory.host(segment);
      assertThat(memory.address()).isEqualTo(segment.address());
      assertThat(memory.length()).isEqualTo(100);
      assertThat(memory.location()).isEqualTo("cpu:0");
      assertThat(memory.segment()).isEqualTo(segment);
    }
  }

  @Test
  void hostMemoryOnTheHeapOrEmptyIsRefused() {
    assertThatThrownBy(() -> KvMemory.host(MemorySegment.ofArray(new byte[8])))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Arena");
    assertThatThrownBy(() -> KvMemory.host(MemorySegment.NULL))
        .isInstanceOf(IllegalArgumentException.class);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment empty = arena.allocate(8).asSlice(8);
      assertThatThrownBy(() -> KvMemory.host(empty))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("length=0");
    }
  }

  @Test
  void memoryOfAClosedArenaIsRefused() {
    MemorySegment dead;
    try (Arena arena = Arena.ofConfined()) {
      dead = arena.allocate(8);
    }
    assertThatThrownBy(() -> KvMemory.host(dead))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("its arena is closed")
        .hasMessageContaining("address=" + dead.address());
  }

  @Test
  void deviceMemoryReachesUpTo2To63() {
    assertThat(device(1, MAX - 1).length()).isEqualTo(MAX - 1);
    assertThat(device(MAX - 1, 1).address()).isEqualTo(MAX - 1);
    assertThatThrownBy(() -> device(2, MAX - 1)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> device(0, 1)).hasMessageContaining("address=0");
    assertThatThrownBy(() -> device(Long.MIN_VALUE, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("address=9223372036854775808");
    assertThatThrownBy(() -> device(1, 0)).hasMessageContaining("length=0");
    assertThatThrownBy(() -> device(1, -1)).hasMessageContaining("length=-1");
    assertThatThrownBy(() -> KvMemory.device(1, 1, "")).hasMessageContaining("location");
  }

  @Test
  void aRegionMayEndWithItsMemory() {
    KvCacheRegion region = region(device(1000, 100), 10, 25, 15, 4);
    assertThat(region.baseAddress()).isEqualTo(1010);
    assertThatThrownBy(() -> region(device(1000, 99), 10, 25, 15, 4))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("byte 100")
        .hasMessageContaining("length=99")
        .hasMessageContaining("layer=l0");
  }

  @Test
  void aRegionOfMoreThanTwoGibibytesIsFine() {
    long block = 3L << 30;
    KvCacheRegion region = region(device(1 << 12, 100 * block), 99 * block, block, block, 1);
    assertThat(region.baseAddress()).isEqualTo((1 << 12) + 99 * block);
    region(device(1 << 12, 5_000_000_000L), 0, 1, 1, 5_000_000_000L);
  }

  @ParameterizedTest
  @CsvSource({
    // offset, stride, bytes, count
    "0, 10, 0, 1",
    "0, 10, -1, 1",
    "0, 9, 10, 1",
    "0, -10, 10, 1",
    "0, 10, 10, 0",
    "0, 10, 10, -1",
    "-1, 10, 10, 1",
    // Each of these wraps a long somewhere.
    "0, 9223372036854775807, 10, 3",
    "0, 10, 10, 9223372036854775807",
    "9223372036854775807, 10, 10, 1",
    "9223372036854775800, 10, 10, 2",
    "0, 4294967296, 10, 4294967297",
    "0, 9223372036854775807, 9223372036854775807, 2",
    "1, 9223372036854775807, 9223372036854775807, 1",
  })
  void aRegionThatDoesNotFitIsRefused(long offset, long stride, long bytes, long count) {
    assertThatThrownBy(() -> region(device(1, 1L << 40), offset, stride, bytes, count))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("layer=l0");
  }

  @Test
  void negativeIndexesAreRefused() {
    KvMemory memory = device(1, 10);
    assertThatThrownBy(() -> new KvCacheRegion("l", -1, 0, memory, 0, 1, 1, 1, List.of(), -1))
        .hasMessageContaining("layer_index=-1");
    assertThatThrownBy(() -> new KvCacheRegion("l", 0, -1, memory, 0, 1, 1, 1, List.of(), -1))
        .hasMessageContaining("group_index=-1");
  }

  @Test
  void aRegionIsSharedByItsOwnGroupWhereNoneIsGiven() {
    KvMemory memory = device(1, 10);
    assertThat(new KvCacheRegion("l", 0, 2, memory, 0, 1, 1, 1, List.of(), -1).sharedGroupIds())
        .containsExactly(2);
    assertThat(new KvCacheRegion("l", 0, 2, memory, 0, 1, 1, 1, List.of(0, 2), 0).sharedGroupIds())
        .containsExactly(0, 2);
  }

  @Test
  void layersInOneMemoryFollowOneAnother() {
    KvCacheLayout layout =
        KvCacheLayout.layersInOne(device(1000, 2 * 3 * 16), List.of("a", "b"), 16, 3);
    assertThat(layout.regions()).extracting(KvCacheRegion::layerName).containsExactly("a", "b");
    assertThat(layout.regions()).extracting(KvCacheRegion::layerIndex).containsExactly(0, 1);
    assertThat(layout.regions())
        .extracting(KvCacheRegion::baseAddress)
        .containsExactly(1000L, 1048L);
    assertThatThrownBy(() -> KvCacheLayout.layersInOne(device(1000, 95), List.of("a", "b"), 16, 3))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("layers=2 * block_count=3 * block_bytes=16 (of one layer's block)")
        .hasMessageContaining("is 96 bytes, more than the memory's length=95");
    assertThatThrownBy(
            () ->
                KvCacheLayout.layersInOne(
                    device(1000, 96), List.of("a", "b"), Long.MAX_VALUE, Long.MAX_VALUE))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("more than the memory's length=96");
  }

  @Test
  void namesEachMemoryOnce() {
    KvMemory one = device(1000, 100);
    KvMemory two = device(5000, 100);
    KvCacheLayout layout =
        new KvCacheLayout(
            List.of(
                region(two, 0, 10, 10, 2), region(one, 0, 10, 10, 2), region(two, 50, 10, 10, 2)));
    assertThat(layout.memories()).containsExactly(two, one);
    KvMemory longer = device(1000, 200);
    assertThat(
            new KvCacheLayout(List.of(region(one, 0, 10, 10, 2), region(longer, 150, 10, 10, 2)))
                .memories())
        .containsExactly(longer);
  }

  @Test
  void aLayoutWithNoRegionsIsRefused() {
    assertThatThrownBy(() -> new KvCacheLayout(List.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("regions");
  }
}
