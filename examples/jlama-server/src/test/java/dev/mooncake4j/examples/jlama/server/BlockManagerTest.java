package dev.mooncake4j.examples.jlama.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class BlockManagerTest {
  private final BlockManager blocks = new BlockManager(4);

  private static BlockHashes hashes(@Nullable String salt, int tokens, int seed) {
    BlockHashes hashes = new BlockHashes(salt);
    hashes.extend(IntStream.range(0, tokens).map(i -> i * seed).toArray(), tokens);
    return hashes;
  }

  private int[] allocated(int count) {
    int[] ids = blocks.allocate(count);
    assertThat(ids).isNotNull();
    return ids == null ? new int[0] : ids;
  }

  private int[] cached(BlockHashes hashes, int count) {
    int[] ids = allocated(count);
    for (int i = 0; i < count; i++) {
      blocks.name(ids[i], hashes.get(i));
    }
    blocks.release(ids);
    return ids;
  }

  @Test
  void noBlockIsGivenOutTwice() {
    int[] all = allocated(4);
    assertThat(Arrays.stream(all).distinct().count()).isEqualTo(4);
    assertThat(blocks.allocate(1)).isNull();
    blocks.release(new int[] {all[2]});
    assertThat(blocks.allocate(1)).containsExactly(all[2]);
  }

  @Test
  void whatIsCachedIsFoundFromTheBeginningOn() {
    BlockHashes hashes = hashes(null, 50, 1);
    int[] ids = cached(hashes, 3);
    assertThat(blocks.free()).isEqualTo(4);
    assertThat(blocks.find(hashes, 9)).isEqualTo(ids);
    assertThat(blocks.free()).isEqualTo(1);
    assertThat(blocks.find(hashes, 2)).isEqualTo(Arrays.copyOf(ids, 2));
    assertThat(blocks.find(hashes(null, 50, 2), 9)).isEmpty();
    assertThat(blocks.find(hashes("salt", 50, 1), 9)).isEmpty();
  }

  @Test
  void theLongestUnusedIsTakenFirstAndOfAPromptItsEnd() {
    BlockHashes first = hashes(null, 32, 1);
    BlockHashes second = hashes(null, 32, 2);
    int[] a = cached(first, 2);
    cached(second, 2);
    blocks.release(blocks.find(first, 2));
    // Now the second is the one unused for longest.
    allocated(1);
    assertThat(blocks.find(second, 2)).hasSize(1);
    assertThat(blocks.find(first, 2)).isEqualTo(a);
  }

  @Test
  void aSharedBlockIsFreeWhenItsLastUserIsGone() {
    BlockHashes hashes = hashes(null, 16, 1);
    int[] ids = cached(hashes, 1);
    blocks.find(hashes, 1);
    blocks.find(hashes, 1);
    blocks.release(ids);
    assertThat(blocks.free()).isEqualTo(3);
    blocks.release(ids);
    assertThat(blocks.free()).isEqualTo(4);
    assertThatThrownBy(() -> blocks.release(ids)).hasMessageContaining("block=" + ids[0]);
  }

  @Test
  void aNameDependsOnAllThatComesBefore() {
    int[] one = IntStream.range(0, 32).toArray();
    int[] other = one.clone();
    other[0] = 99;
    BlockHashes a = new BlockHashes(null);
    BlockHashes b = new BlockHashes(null);
    a.extend(one, 32);
    b.extend(other, 32);
    assertThat(a.get(1)).isNotEqualTo(b.get(1));
    BlockHashes grown = new BlockHashes(null);
    grown.extend(one, 17);
    assertThat(grown.size()).isEqualTo(1);
    grown.extend(one, 32);
    assertThat(grown.get(1)).isEqualTo(a.get(1));
  }
}
