package dev.mooncake4j.connector.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class DescriptorListTest {
  @Test
  void startsEmpty() {
    try (DescriptorList list = new DescriptorList()) {
      assertThat(list.size()).isZero();
      assertThat(list.bytes()).isZero();
      assertThatThrownBy(() -> list.source(0)).isInstanceOf(IndexOutOfBoundsException.class);
    }
  }

  @Test
  void mergesWhatGoesOnOnBothSides() {
    try (DescriptorList list = new DescriptorList()) {
      list.add(1000, 5000, 10);
      list.add(1010, 5010, 20);
      list.add(1030, 5030, 1);
      assertThat(list.size()).isEqualTo(1);
      assertEntry(list, 0, 1000, 5000, 31);
      assertThat(list.bytes()).isEqualTo(31);
    }
  }

  @Test
  void keepsApartWhatGoesOnOnOneSideOrNone() {
    try (DescriptorList list = new DescriptorList()) {
      list.add(1000, 5000, 10);
      list.add(1010, 5011, 10);
      list.add(1021, 5021, 10);
      // Just before the last one, and the same again.
      list.add(1011, 5011, 10);
      list.add(1011, 5011, 10);
      assertThat(list.size()).isEqualTo(5);
      assertEntry(list, 1, 1010, 5011, 10);
      assertEntry(list, 2, 1021, 5021, 10);
      assertThat(list.bytes()).isEqualTo(50);
    }
  }

  @Test
  void mergesWithTheLastAlone() {
    try (DescriptorList list = new DescriptorList()) {
      list.add(1000, 5000, 10);
      list.add(2000, 6000, 10);
      list.add(1010, 5010, 10);
      assertThat(list.size()).isEqualTo(3);
    }
  }

  @Test
  void mergesNothingAcrossAFence() {
    try (DescriptorList list = new DescriptorList()) {
      list.fence();
      list.add(1000, 5000, 10);
      list.fence();
      list.add(1010, 5010, 10);
      list.add(1020, 5020, 10);
      assertThat(list.size()).isEqualTo(2);
      assertThat(list.length(1)).isEqualTo(20);
      list.clear();
      list.add(1, 2, 3);
      list.add(4, 5, 6);
      assertThat(list.size()).isEqualTo(1);
    }
  }

  @Test
  void mergesPastFourGibibytes() {
    try (DescriptorList list = new DescriptorList()) {
      long piece = 3L << 30;
      list.add(1L << 40, 1L << 50, piece);
      list.add((1L << 40) + piece, (1L << 50) + piece, piece);
      assertEntry(list, 0, 1L << 40, 1L << 50, 2 * piece);
      assertThat(list.bytes()).isEqualTo(2 * piece);
    }
  }

  @Test
  void growsAndKeepsWhatItHolds() {
    long seed = System.nanoTime();
    int count = 10_000;
    SplittableRandom random = new SplittableRandom(seed);
    try (DescriptorList list = new DescriptorList(1)) {
      for (int i = 0; i < count; i++) {
        list.add(
            random.nextLong(1L << 50), random.nextLong(1L << 50), 1 + random.nextLong(1 << 20));
      }
      assertThat(list.size()).as("seed=" + seed).isEqualTo(count);
      SplittableRandom again = new SplittableRandom(seed);
      long bytes = 0;
      for (int i = 0; i < count; i++) {
        assertThat(list.source(i)).as("seed=" + seed).isEqualTo(again.nextLong(1L << 50));
        assertThat(list.destination(i)).as("seed=" + seed).isEqualTo(again.nextLong(1L << 50));
        long length = 1 + again.nextLong(1 << 20);
        assertThat(list.length(i)).as("seed=" + seed).isEqualTo(length);
        bytes += length;
      }
      assertThat(list.bytes()).as("seed=" + seed).isEqualTo(bytes);
    }
  }

  @Test
  void mergesWithTheLastEntryBeforeItGrows() {
    try (DescriptorList list = new DescriptorList(1)) {
      list.add(1000, 5000, 10);
      list.add(1010, 5010, 10);
      list.add(3000, 7000, 10);
      assertThat(list.size()).isEqualTo(2);
      assertEntry(list, 0, 1000, 5000, 20);
      assertEntry(list, 1, 3000, 7000, 10);
    }
  }

  @Test
  void isUsedAgainOnceItIsCleared() {
    try (DescriptorList list = new DescriptorList(0)) {
      list.add(1000, 5000, 10);
      list.clear();
      assertThat(list.size()).isZero();
      assertThat(list.bytes()).isZero();
      assertThatThrownBy(() -> list.length(0)).isInstanceOf(IndexOutOfBoundsException.class);
      // Goes on where the cleared one ended: that one is gone.
      list.add(1010, 5010, 10);
      assertThat(list.size()).isEqualTo(1);
      assertEntry(list, 0, 1010, 5010, 10);
    }
  }

  @Test
  void positionsOutsideAreErrors() {
    try (DescriptorList list = new DescriptorList()) {
      list.add(1000, 5000, 10);
      assertThatThrownBy(() -> list.source(-1)).hasMessageContaining("index=-1");
      assertThatThrownBy(() -> list.destination(1)).hasMessageContaining("size=1");
    }
  }

  @Test
  void isNotUsedOnceItIsClosed() {
    DescriptorList list = new DescriptorList();
    list.add(1000, 5000, 10);
    list.close();
    list.close();
    assertThat(list.size()).isZero();
    assertThatThrownBy(() -> list.source(0)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> list.add(1000, 5000, 10)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aRangeToRegisterIsWithin63Bits() {
    assertThat(new MemoryRange(1, Long.MAX_VALUE - 1, "cpu:0").length())
        .isEqualTo(Long.MAX_VALUE - 1);
    assertThatThrownBy(() -> new MemoryRange(2, Long.MAX_VALUE - 1, "cpu:0"))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> new MemoryRange(0, 1, "cpu:0")).hasMessageContaining("address=0");
    assertThatThrownBy(() -> new MemoryRange(-1, 1, "cpu:0"))
        .hasMessageContaining("address=18446744073709551615");
    assertThatThrownBy(() -> new MemoryRange(1, 0, "cpu:0")).hasMessageContaining("length=0");
  }

  @Test
  void onlyAWriteThatTimedOutIsNotQuiet() {
    assertThat(WriteResult.completed().isCompleted()).isTrue();
    assertThat(WriteResult.completed().quiet().toCompletableFuture()).isCompleted();
    assertThat(WriteResult.failed("status=5").isCompleted()).isFalse();
    assertThat(WriteResult.failed("status=5").quiet().toCompletableFuture()).isCompleted();
    CompletableFuture<Void> quiet = new CompletableFuture<>();
    WriteResult late = WriteResult.timedOut("late", quiet);
    assertThat(late.isCompleted()).isFalse();
    assertThat(late.quiet()).isSameAs(quiet);
  }

  private static void assertEntry(
      DescriptorList list, int index, long source, long destination, long length) {
    assertThat(list.source(index)).isEqualTo(source);
    assertThat(list.destination(index)).isEqualTo(destination);
    assertThat(list.length(index)).isEqualTo(length);
  }
}
