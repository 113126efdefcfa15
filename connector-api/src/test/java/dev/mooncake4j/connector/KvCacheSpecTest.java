package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvCacheSpecTest {
  @ParameterizedTest(name = "window {1} in blocks of {0}: of {2} blocks {3}")
  @CsvSource({
    "16, 128, 100, 9",
    "16, 127, 100, 9",
    "16, 129, 100, 10",
    "16, 1, 100, 2",
    "16, 16, 100, 2",
    "16, 17, 100, 3",
    "1, 4, 100, 5",
    "16, 128, 9, 9",
    "16, 128, 8, 8",
    "16, 128, 1, 1",
    "16, 128, 0, 0",
    "16, 2147483647, 50, 50",
    "1, 2147483647, 50, 50",
  })
  void aSlidingWindowSendsItsLastBlocks(int blockTokens, int window, int blocks, int sent) {
    assertThat(KvCacheGroup.slidingWindow(blockTokens, window).sendableBlocks(blocks))
        .isEqualTo(sent);
  }

  @Test
  void otherGroupsSendAll() {
    assertThat(KvCacheGroup.fullAttention(16).sendableBlocks(1000)).isEqualTo(1000);
    assertThat(KvCacheGroup.mamba(16).sendableBlocks(1000)).isEqualTo(1000);
    assertThat(KvCacheGroup.fullAttention(16).sendableBlocks(0)).isZero();
  }

  @Test
  void aGroupsNumbersMustFit() {
    assertThatThrownBy(() -> KvCacheGroup.fullAttention(0)).hasMessageContaining("block_tokens=0");
    assertThatThrownBy(() -> KvCacheGroup.slidingWindow(16, 0))
        .hasMessageContaining("sliding_window=0");
    assertThatThrownBy(() -> new KvCacheGroup(KvCacheGroup.Kind.FULL_ATTENTION, 16, 128))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("sliding_window=128");
  }

  @Test
  void aSpecsNumbersMustFit() {
    List<KvCacheGroup> one = List.of(KvCacheGroup.fullAttention(16));
    assertThatThrownBy(() -> new KvCacheSpec(List.of(), 0, false, 1))
        .hasMessageContaining("groups");
    assertThatThrownBy(() -> new KvCacheSpec(one, -1, false, 1))
        .hasMessageContaining("total_kv_heads=-1");
    assertThatThrownBy(() -> new KvCacheSpec(one, 0, false, 0))
        .hasMessageContaining("physical_blocks_per_logical=0");
  }

  @Test
  void aStateGroupIsFound() {
    assertThat(KvCacheSpec.fullAttention(16).hasMamba()).isFalse();
    assertThat(
            new KvCacheSpec(
                    List.of(KvCacheGroup.fullAttention(16), KvCacheGroup.mamba(16)), 8, false, 1)
                .hasMamba())
        .isTrue();
  }

  @ParameterizedTest
  @CsvSource({
    "-1, 1, 0, 1, 0",
    "1, 1, 0, 1, 0",
    "0, 0, 0, 1, 0",
    "0, 1, -1, 1, 0",
    "0, 1, 1, 1, 0",
    "0, 1, 0, 0, 0",
    "0, 1, 0, 1, -1"
  })
  void aRankOutsideItsSizeIsRefused(int tp, int tpSize, int pp, int ppSize, int dp) {
    assertThatThrownBy(() -> new RankLayout(tp, tpSize, pp, ppSize, dp))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("_rank=");
  }

  @Test
  void onlyTheFirstRankOfEveryKindIsFirst() {
    assertThat(RankLayout.single().isFirst()).isTrue();
    assertThat(new RankLayout(0, 2, 0, 2, 0).isFirst()).isTrue();
    assertThat(new RankLayout(1, 2, 0, 2, 0).isFirst()).isFalse();
    assertThat(new RankLayout(0, 2, 1, 2, 0).isFirst()).isFalse();
    assertThat(new RankLayout(0, 2, 0, 2, 1).isFirst()).isFalse();
  }

  @Test
  void rolesHaveTheNamesOfTheirConfiguration() {
    for (KvRole role : KvRole.values()) {
      assertThat(KvRole.ofConfigName(role.configName())).isEqualTo(role);
    }
    assertThat(KvRole.PRODUCER.configName()).isEqualTo("kv_producer");
    assertThat(KvRole.CONSUMER.configName()).isEqualTo("kv_consumer");
    assertThat(KvRole.BOTH.isProducer() && KvRole.BOTH.isConsumer()).isTrue();
    assertThat(KvRole.PRODUCER.isConsumer() || KvRole.CONSUMER.isProducer()).isFalse();
    assertThatThrownBy(() -> KvRole.ofConfigName("producer"))
        .hasMessageContaining("kv_role=producer");
  }

  @Test
  void aPrefillThatEndsByAStopTokenHasKv() {
    assertThat(FinishReason.STOP.hasKv()).isTrue();
    assertThat(FinishReason.LENGTH.hasKv()).isTrue();
    assertThat(FinishReason.ABORTED.hasKv()).isFalse();
    assertThat(FinishReason.ERROR.hasKv()).isFalse();
  }
}
