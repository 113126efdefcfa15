package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class BlockIdsTest {
  @Test
  void holdsOneGroup() {
    BlockIds ids = BlockIds.of(7, 3, 5);
    assertThat(ids.groupCount()).isEqualTo(1);
    assertThat(ids.size(0)).isEqualTo(3);
    assertThat(ids.totalSize()).isEqualTo(3);
    assertThat(ids.get(0, 1)).isEqualTo(3);
    assertThat(ids.toArray(0)).containsExactly(7, 3, 5);
    assertThat(ids.isEmpty()).isFalse();
    assertThat(ids).hasToString("[[7, 3, 5]]");
  }

  @Test
  void holdsSeveralGroupsInTheirOrder() {
    BlockIds ids = BlockIds.ofGroups(new int[] {1, 2}, new int[0], new int[] {1});
    assertThat(ids.groupCount()).isEqualTo(3);
    assertThat(ids.totalSize()).isEqualTo(3);
    assertThat(ids.size(1)).isZero();
    assertThat(ids.toArray(2)).containsExactly(1);
  }

  @Test
  void noneHasNoGroups() {
    assertThat(BlockIds.none().groupCount()).isZero();
    assertThat(BlockIds.none().isEmpty()).isTrue();
    assertThat(BlockIds.ofGroups()).isEqualTo(BlockIds.none());
    assertThat(BlockIds.none().last(4)).isEqualTo(BlockIds.none());
  }

  @Test
  void aGroupWithoutBlocksIsEmptyButNotNone() {
    assertThat(BlockIds.of().isEmpty()).isTrue();
    assertThat(BlockIds.of()).isNotEqualTo(BlockIds.none());
  }

  @Test
  void isNotChangedThroughAnyArray() {
    int[] given = {1, 2};
    int[][] groups = {{1, 2}};
    BlockIds ids = BlockIds.of(given);
    BlockIds ofGroups = BlockIds.ofGroups(groups);
    given[0] = 9;
    groups[0][0] = 9;
    groups[0] = new int[] {8};
    ids.toArray(0)[1] = 9;
    assertThat(ids).isEqualTo(BlockIds.of(1, 2));
    assertThat(ofGroups).isEqualTo(BlockIds.of(1, 2));
  }

  @Test
  void copiesAPartOfAGroup() {
    BlockIds ids = BlockIds.ofGroups(new int[] {1, 2, 3, 4}, new int[] {5});
    int[] target = {9, 9, 9, 9};
    ids.copyTo(0, 1, target, 2, 2);
    assertThat(target).containsExactly(9, 9, 2, 3);
    ids.copyTo(1, 1, target, 4, 0);
    assertThatThrownBy(() -> ids.copyTo(0, 3, target, 0, 2))
        .isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> ids.copyTo(0, 0, target, 3, 2))
        .isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> ids.copyTo(2, 0, target, 0, 0))
        .isInstanceOf(IndexOutOfBoundsException.class);
    assertThat(target).containsExactly(9, 9, 2, 3);
  }

  @Test
  void takesTheLastOfEachGroup() {
    BlockIds ids = BlockIds.ofGroups(new int[] {1, 2, 3}, new int[] {4});
    assertThat(ids.last(2)).isEqualTo(BlockIds.ofGroups(new int[] {2, 3}, new int[] {4}));
    assertThat(ids.last(0)).isEqualTo(BlockIds.ofGroups(new int[0], new int[0]));
    assertThat(ids.last(Integer.MAX_VALUE)).isEqualTo(ids);
    assertThatThrownBy(() -> ids.last(-1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("n=-1");
  }

  @Test
  void isEqualByContent() {
    assertThat(BlockIds.of(1, 2)).isEqualTo(BlockIds.ofGroups(new int[] {1, 2}));
    assertThat(BlockIds.of(1, 2)).hasSameHashCodeAs(BlockIds.ofGroups(new int[] {1, 2}));
    assertThat(BlockIds.of(1, 2)).isNotEqualTo(BlockIds.of(2, 1));
    assertThat(BlockIds.of(1, 2)).isNotEqualTo(BlockIds.ofGroups(new int[] {1}, new int[] {2}));
  }

  @Test
  void aLongListIsShownByItsSize() {
    int[] many = IntStream.range(0, 33).toArray();
    assertThat(BlockIds.of(many)).hasToString("BlockIds[groups=1, blocks=33]");
  }

  @Test
  void positionsOutsideAreErrors() {
    BlockIds ids = BlockIds.of(1);
    assertThatThrownBy(() -> ids.get(0, 1)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> ids.get(1, 0)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> BlockIds.none().size(0)).isInstanceOf(IndexOutOfBoundsException.class);
  }
}
