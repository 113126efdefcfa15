package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** The formula against values from another implementation of it. */
class BlockPatternTest {

  @Test
  void wholeBlocks() {
    PeerOptions options = PeerOptions.parse("--role", "prefiller", "--block-len", "512");
    BlockPattern pattern = BlockPattern.of(options, 1);
    assertThat(pattern.word(0, 0, 0)).isEqualTo(1);
    assertThat(pattern.word(1, 3, 5)).isEqualTo(0x6f24f608d80ed45cL);
    assertThat(pattern.sha256(new int[] {0, 1}, new int[] {3, 0, 7}))
        .isEqualTo("83df14312f2c0f735a8f8e99640b6b6a510c186c38d3b298f6c72b1bb0935899");
  }

  @Test
  void theSecondHalfOfTheHeadsAndOfTheLayers() {
    PeerOptions options =
        PeerOptions.parse(
            "--role decoder --layers 4 --block-len 512 --tp-size 2 --tp-rank 1 --pp-size 2 --pp-rank 1"
                .split(" "));
    assertThat(options.layerIndices()).containsExactly(2, 3);
    assertThat(BlockPattern.of(options, 7).sha256(options.layerIndices(), new int[] {5}))
        .isEqualTo("70b861cfb4fe4a89cde5ef75e8ba1406f649e9d1d94e07bf24611e304b9df06a");
  }

  @Test
  void aFilledCacheHoldsTheFormula() {
    PeerOptions options =
        PeerOptions.parse(
            "--role prefiller --layers 3 --num-blocks 9 --block-len 512 --seed 42".split(" "));
    int[] blocks = {8, 2, 5};
    try (PeerCache cache = new PeerCache(options)) {
      assertThat(cache.sha256(blocks))
          .isEqualTo(BlockPattern.of(options, 42).sha256(options.layerIndices(), blocks));
      assertThat(cache.nonzero(blocks)).isEqualTo(9);
      assertThat(cache.touched(blocks)).isEqualTo(9);
      cache.zero();
      assertThat(cache.nonzero(blocks)).isZero();
    }
  }
}
