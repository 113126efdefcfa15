package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Runs of long lists, which are taken piece by piece. */
class BlockRunsTest {
  private final BlockRuns runs = new BlockRuns();

  private List<String> found() {
    List<String> found = new ArrayList<>();
    for (int g = 0; g < runs.groupCount(); g++) {
      for (int i = runs.firstRun(g); i < runs.endRun(g); i++) {
        found.add(
            g + ": " + runs.localStart(i) + ">" + runs.remoteStart(i) + " x" + runs.length(i));
      }
    }
    return found;
  }

  @Test
  void aLongRunIsOneRun() {
    for (int count : new int[] {63, 64, 65, 128, 1000}) {
      runs.fill(
          BlockIds.of(IntStream.range(5, 5 + count).toArray()),
          BlockIds.of(IntStream.range(7, 7 + count).toArray()),
          new boolean[1]);
      assertThat(found()).containsExactly("0: 5>7 x" + count);
      assertThat(runs.blocks(0)).isEqualTo(count);
      assertThat(runs.maxLocal(0)).isEqualTo(4 + count);
      assertThat(runs.maxRemote(0)).isEqualTo(6 + count);
    }
  }

  @Test
  void anIdBelowZeroIsFoundInAnyPiece() {
    for (int at : new int[] {0, 63, 64, 199}) {
      int[] ids = IntStream.range(0, 200).toArray();
      ids[at] = -2;
      BlockIds bad = BlockIds.of(ids);
      BlockIds good = BlockIds.of(IntStream.range(0, 200).toArray());
      assertThatThrownBy(() -> runs.fill(bad, good, new boolean[1]))
          .isInstanceOf(PlanException.class)
          .hasMessageContaining("prefiller block_id=-2 at index=" + at);
      assertThatThrownBy(() -> runs.fill(good, bad, new boolean[1]))
          .isInstanceOf(PlanException.class)
          .hasMessageContaining("decoder block_id=-2 at index=" + at);
    }
  }

  @Test
  void runsAreThoseOfASimpleLoopForListsOfAnyLength() {
    long seed = Long.getLong("mooncake4j.seed", System.nanoTime());
    System.out.println("BlockRunsTest: mooncake4j.seed=" + seed);
    for (int i = 0; i < 500; i++) {
      Random random = new Random(seed + i);
      boolean[] skipNull = {random.nextBoolean(), random.nextBoolean()};
      int[][] local = new int[2][];
      int[][] remote = new int[2][];
      List<String> expected = new ArrayList<>();
      for (int g = 0; g < 2; g++) {
        int asked = random.nextInt(300);
        int[] held = ids(asked + random.nextInt(100), random);
        int[] wanted = ids(asked, random);
        expected.addAll(expected(g, held, wanted));
        local[g] = skipNull[g] ? withNulls(held, random) : held;
        remote[g] = skipNull[g] ? withNulls(wanted, random) : wanted;
      }
      runs.fill(BlockIds.ofGroups(local), BlockIds.ofGroups(remote), skipNull);
      assertThat(found()).as("mooncake4j.seed=%d", seed + i).isEqualTo(expected);
    }
  }

  /** From 1 on, in runs. */
  private static int[] ids(int count, Random random) {
    int[] ids = new int[count];
    int next = 1;
    for (int i = 0; i < count; i++) {
      next = random.nextInt(20) == 0 ? 1 + random.nextInt(100_000) : next + 1;
      ids[i] = next;
    }
    return ids;
  }

  private static int[] withNulls(int[] ids, Random random) {
    List<Integer> list = new ArrayList<>();
    for (int id : ids) {
      while (random.nextInt(5) == 0) {
        list.add(0);
      }
      list.add(id);
    }
    return list.stream().mapToInt(Integer::intValue).toArray();
  }

  private static List<String> expected(int group, int[] held, int[] wanted) {
    List<String> expected = new ArrayList<>();
    int skipped = held.length - wanted.length;
    int i = 0;
    while (i < wanted.length) {
      int length = 1;
      while (i + length < wanted.length
          && held[skipped + i + length] == held[skipped + i] + length
          && wanted[i + length] == wanted[i] + length) {
        length++;
      }
      expected.add(group + ": " + held[skipped + i] + ">" + wanted[i] + " x" + length);
      i += length;
    }
    return expected;
  }
}
