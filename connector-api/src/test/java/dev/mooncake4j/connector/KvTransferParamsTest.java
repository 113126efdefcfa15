package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class KvTransferParamsTest {
  @Test
  void aPrefillersParametersAreWrittenAsAProxyWritesThem() {
    assertThat(KvTransferParams.forPrefiller("xfer-1").toMap())
        .containsExactlyInAnyOrderEntriesOf(
            Map.of("do_remote_decode", true, "do_remote_prefill", false, "transfer_id", "xfer-1"));
  }

  @Test
  void aDecodersParametersAreWrittenAsAProxyWritesThem() {
    assertThat(KvTransferParams.forDecoder("xfer-1", "engine", "http://p:8998").toMap())
        .containsExactlyInAnyOrderEntriesOf(
            Map.of(
                "do_remote_decode",
                false,
                "do_remote_prefill",
                true,
                "transfer_id",
                "xfer-1",
                "remote_engine_id",
                "engine",
                "remote_bootstrap_addr",
                "http://p:8998"));
  }

  @Test
  void readsWhatItWrites() {
    for (KvTransferParams params :
        List.of(
            KvTransferParams.forPrefiller("x"),
            KvTransferParams.forDecoder("x", "e", "http://[::1]:8998"),
            KvTransferParams.forPrefiller("x").withTraceparent("00-0123-4567-01"),
            new KvTransferParams(false, false, null, null, null))) {
      assertThat(KvTransferParams.fromMap(params.toMap())).isEqualTo(params);
    }
  }

  @Test
  void whatIsMissingOrNullIsAbsentAndUnknownKeysAreIgnored() {
    KvTransferParams none = new KvTransferParams(false, false, null, null, null);
    assertThat(KvTransferParams.fromMap(Map.of("remote_block_ids", List.of(1), "x", "y")))
        .isEqualTo(none);
    Map<String, @Nullable Object> nulls = new HashMap<>();
    nulls.put("do_remote_decode", null);
    nulls.put("transfer_id", null);
    nulls.put("remote_engine_id", null);
    nulls.put("remote_bootstrap_addr", null);
    assertThat(KvTransferParams.fromMap(nulls)).isEqualTo(none);
  }

  @Test
  void aTraceparentIsTakenAsItIsAndNeverFailsARequest() {
    KvTransferParams params = KvTransferParams.forPrefiller("x").withTraceparent("of any form");
    assertThat(params.traceparent()).isEqualTo("of any form");
    assertThat(params.toMap()).containsEntry("traceparent", "of any form");
    assertThat(params.withTraceparent(null)).isEqualTo(KvTransferParams.forPrefiller("x"));
    for (Object value : List.of(true, 1, Map.of())) {
      assertThat(KvTransferParams.fromMap(Map.of("traceparent", value)).traceparent()).isNull();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"do_remote_decode", "do_remote_prefill"})
  void aFlagOfAnotherTypeIsRefusedByName(String key) {
    for (Object value : List.of("true", 1, List.of())) {
      assertThatThrownBy(() -> KvTransferParams.fromMap(Map.of(key, value)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("kv_transfer_params." + key + "=" + value);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"transfer_id", "remote_engine_id", "remote_bootstrap_addr"})
  void aTextOfAnotherTypeIsRefusedByName(String key) {
    for (Object value : List.of(true, 1, Map.of())) {
      assertThatThrownBy(() -> KvTransferParams.fromMap(Map.of(key, value)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining("kv_transfer_params." + key + "=" + value);
    }
  }
}
