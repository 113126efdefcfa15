package dev.mooncake4j.it.stress;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A short run of {@code stress.sh} with one process killed, and its options. */
class StressTest {

  @Test
  @Tag("two-jvms")
  @Timeout(value = 300, unit = TimeUnit.SECONDS)
  void aPrefillerKilledUnderLoad() throws InterruptedException {
    StressOptions options = StressOptions.usual(7).withLoad(Duration.ofSeconds(15)).killsOnly(2, 2);
    try (StressRun run = StressRun.of(options)) {
      assertThat(run.run()).as("see the table in the output").isTrue();
    }
  }

  @Test
  void optionsAreRead() {
    StressOptions options = StressOptions.parse("--minutes", "0.5", "--seed", "3", "--rate", "20");
    assertThat(options.load()).isEqualTo(Duration.ofSeconds(30));
    assertThat(options.seed()).isEqualTo(3);
    assertThat(options.rate()).isEqualTo(20);
    assertThat(options.namespaces()).isFalse();
  }

  @Test
  void everyBadOptionIsNamed() {
    assertThatThrownBy(() -> StressOptions.parse("--minutes", "0", "--speed", "3", "--seed"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("--minutes 0: not between 0.1 and 1440")
        .hasMessageContaining("--speed 3: not known")
        .hasMessageContaining("--seed has no value");
  }

  @Test
  void thePatternTellsRequestsPlacesAndBytesApart() {
    try (BlockPool pool = new BlockPool(1)) {
      int[] blocks = pool.take(3, true);
      pool.fill(KvPattern.of("x-1"), blocks);
      assertThat(pool.wrongBytes(KvPattern.of("x-1"), 0, blocks)).isZero();
      assertThat(pool.wrongBytes(KvPattern.of("x-1"), 1, blocks)).isPositive();
      assertThat(pool.wrongBytes(KvPattern.of("x-2"), 0, blocks))
          .isGreaterThan(BlockPool.bytes(3) * 9 / 10);
      pool.giveBack(blocks);
      assertThat(pool.spoiled()).isZero();
      assertThat(pool.freeBlocks()).isEqualTo(BlockPool.BLOCKS);
      pool.fill(KvPattern.of("x-1"), blocks[0]);
      assertThat(pool.spoiled()).as("a write to a free block").isPositive();
    }
  }
}
