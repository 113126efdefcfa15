package dev.mooncake4j.core.discovery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class EngineAddressesTest {
  private static EngineAddresses of(Map<Integer, Map<Integer, String>> ranks) {
    return new EngineAddresses(0, "e", ranks);
  }

  private static Map<Integer, String> stages(int... stages) {
    Map<Integer, String> addresses = new HashMap<>();
    for (int stage : stages) {
      addresses.put(stage, "tcp://h:" + (stage + 1));
    }
    return addresses;
  }

  @Test
  void anEngineIsCompleteWhenNoRankAndNoStageIsMissing() {
    assertThat(of(Map.of(0, stages(0))).isComplete()).isTrue();
    assertThat(of(Map.of(0, stages(0, 1), 1, stages(0, 1))).isComplete()).isTrue();
    assertThat(of(Map.of()).isComplete()).isFalse();
    assertThat(of(Map.of(0, stages())).isComplete()).isFalse();
    assertThat(of(Map.of(1, stages(0))).isComplete()).as("rank 0 is missing").isFalse();
    assertThat(of(Map.of(0, stages(0), 2, stages(0))).isComplete()).isFalse();
    assertThat(of(Map.of(0, stages(0, 1), 1, stages(0))).isComplete()).isFalse();
    assertThat(of(Map.of(0, stages(0), 1, stages(0, 1))).isComplete()).isFalse();
    assertThat(of(Map.of(0, stages(1))).isComplete()).as("stage 0 is missing").isFalse();
    assertThat(of(Map.of(0, stages(0, 1), 1, stages(0, 2))).isComplete()).isFalse();
  }

  @Test
  void anAddressIsFoundByItsRankAndStage() {
    EngineAddresses engine = of(Map.of(0, stages(0, 1), 1, stages(0, 1)));
    assertThat(engine.tpSize()).isEqualTo(2);
    assertThat(engine.ppSize()).isEqualTo(2);
    assertThat(engine.address(1, 1)).isEqualTo("tcp://h:2");
    assertThatThrownBy(() -> engine.address(2, 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("tp_rank=2");
    assertThatThrownBy(() -> engine.address(0, 5)).hasMessageContaining("pp_rank=5");
  }

  @Test
  void itDoesNotChangeWithTheMapsItWasMadeFrom() {
    Map<Integer, String> stages = stages(0);
    Map<Integer, Map<Integer, String>> ranks = new HashMap<>(Map.of(0, stages));
    EngineAddresses engine = of(ranks);
    stages.put(0, "tcp://elsewhere:1");
    ranks.clear();
    assertThat(engine.address(0, 0)).isEqualTo("tcp://h:1");
  }
}
