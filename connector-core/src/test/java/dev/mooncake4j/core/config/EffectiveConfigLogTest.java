package dev.mooncake4j.core.config;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvRole;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class EffectiveConfigLogTest {

  @Test
  void everyValueIsInOneLineAndNothingSecret() {
    ConnectorConfig config =
        ConnectorConfig.builder()
            .environment(Map.of())
            .connectorName("c")
            .role(KvRole.BOTH)
            .engineId("e")
            .modelName("m")
            .host("10.0.0.1")
            .masterHost("10.0.0.2")
            .numWorkers(3)
            .protocol("tcp")
            .deviceName("a,b")
            .leaseDuration(Duration.ofMillis(1500))
            .bootstrapServerAddress("h:1")
            .bootstrapAllowedHosts(List.of("*.b", "10.0.0.0/8"))
            .peerAllowedHosts(List.of("p"))
            .kvCacheFingerprint("Qwen bf16")
            .integrityCheck(true)
            .sendWhilePrefill(true)
            .bootstrapPort(2)
            .connectorTimeout(Duration.ofSeconds(4))
            .abortRequestTimeout(Duration.ofSeconds(5))
            .cacheSpec(KvCacheSpec.fullAttention(32))
            .engineLibrary(Path.of("/x/libengine.so"))
            .sharedSecret("correct-horse-battery")
            .extra("token", "hunter2")
            .extra("other", 1)
            .build();

    try (CapturedLog log = new CapturedLog()) {
      EffectiveConfigLog.log(config);

      assertThat(log.lines("INFO"))
          .singleElement()
          .asString()
          .endsWith(
              "configuration: kv_connector=c, kv_role=kv_both, engine_id=e, model_name=m,"
                  + " host=10.0.0.1, master_host=10.0.0.2, num_workers=3, mooncake_protocol=tcp,"
                  + " device_name=a,b, kv_lease_duration=1.5s, bootstrap_server_address=h:1,"
                  + " bootstrap_allowed_hosts=[*.b, 10.0.0.0/8],"
                  + " peer_allowed_hosts=[p], kv_cache_fingerprint=Qwen bf16,"
                  + " integrity_check=true, send_while_prefill=true,"
                  + " bootstrap_port=2, connector_timeout=4.0s, abort_request_timeout=5.0s,"
                  + " cache_spec="
                  + KvCacheSpec.fullAttention(32)
                  + ", engine_library=/x/libengine.so, shared_secret=set, unknown_keys=[other, token]")
          .doesNotContain("hunter2")
          .doesNotContain("horse");
    }
  }

  @Test
  void aValueThatIsAddedToTheConfigurationIsAddedHere() {
    ConnectorConfig config =
        ConnectorConfig.builder().environment(Map.of()).host("h").role(KvRole.BOTH).build();
    String withoutSpec =
        EffectiveConfigLog.describe(config).replace(config.cacheSpec().toString(), "");

    assertThat(withoutSpec.split("=", -1))
        .hasSize(ConnectorConfig.class.getRecordComponents().length + 1);
    assertThat(withoutSpec)
        .contains("kv_lease_duration=unset")
        .contains("engine_library=unset")
        .contains("shared_secret=unset")
        .contains("master_host=unset");
  }
}
