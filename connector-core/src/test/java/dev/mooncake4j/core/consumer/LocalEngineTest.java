package dev.mooncake4j.core.consumer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.TransferRegion;
import dev.mooncake4j.core.wire.WireLayout;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A decoder's own ids, before it sends them to anyone. */
class LocalEngineTest {
  private static final int BLOCKS = 1_000;

  private final LocalEngine engine =
      new LocalEngine(
          "h",
          1,
          new LocalCache(
              RankLayout.single(),
              KvCacheSpec.fullAttention(16),
              List.of(
                  new TransferRegion("l0", 0, 1L << 20, 64, 64, 0, List.of(0), -1, BLOCKS + 24),
                  new TransferRegion("l1", 1, 1L << 30, 64, 64, 0, List.of(0), -1, BLOCKS))),
          WireLayout.empty(),
          1,
          HostMemory.of(List.of()));

  private static int[] upTo(int n) {
    return IntStream.range(0, n).toArray();
  }

  @Test
  void idsOfTheCacheInAnyOrderAreFine() {
    assertThat(engine.problemWith(BlockIds.of())).isNull();
    assertThat(engine.problemWith(BlockIds.of(upTo(BLOCKS)))).isNull();
    int[] backwards = IntStream.range(0, BLOCKS).map(i -> BLOCKS - 1 - i).toArray();
    assertThat(engine.problemWith(BlockIds.of(backwards))).isNull();
    int[] twoRuns = IntStream.range(0, BLOCKS).map(i -> (i + 300) % BLOCKS).toArray();
    assertThat(engine.problemWith(BlockIds.of(twoRuns))).isNull();
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 63, 64, 65, 127, 128, 500, 998, 999})
  void anIdThatIsNoBlocksIsFoundWhereverItStands(int at) {
    for (int wrong : new int[] {-1, Integer.MIN_VALUE, BLOCKS, BLOCKS + 1, Integer.MAX_VALUE}) {
      int[] ids = upTo(BLOCKS);
      ids[at] = wrong;
      assertThat(engine.problemWith(BlockIds.of(ids)))
          .isEqualTo("block_id=" + wrong + " of group=0 is not within 0 to 999");
    }
  }

  @Test
  void anIdThatIsGivenTwiceIsFoundWhereverTheTwoStand() {
    int[] places = {0, 1, 63, 64, 65, 127, 128, 500, 999};
    for (int first : places) {
      for (int second : places) {
        if (first != second) {
          int[] ids = upTo(BLOCKS);
          ids[second] = ids[first];
          assertThat(engine.problemWith(BlockIds.of(ids)))
              .as("%d and %d", first, second)
              .isEqualTo(
                  "block_id="
                      + first
                      + " of group=0 is given twice: each block of a prompt needs its own");
        }
      }
    }
  }

  @Test
  void theFirstProblemIsTheOneThatIsTold() {
    int[] ids = upTo(BLOCKS);
    ids[700] = 5;
    ids[800] = BLOCKS;
    assertThat(engine.problemWith(BlockIds.of(ids))).contains("block_id=5 ", "given twice");
    ids[600] = -7;
    assertThat(engine.problemWith(BlockIds.of(ids))).contains("block_id=-7 ", "not within");
  }
}
