package dev.mooncake4j.core.config;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.DictionaryFile;
import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.mooncake4j.connector.ConfigurationException;
import dev.mooncake4j.connector.ConnectorConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;

/**
 * The JSON of a configuration: a text is a configuration, which written as JSON reads the same, or
 * it has problems that are told, each on a short line.
 */
class ConfigFuzzTest {
  private static final int LONGEST_PROBLEM = 1_000;
  private static final JsonMapper JSON = JsonMapper.builder().build();

  @FuzzTest
  @DictionaryFile(resourcePath = "/dev/mooncake4j/core/config/config.dict")
  void json(byte[] bytes) {
    String json = new String(bytes, StandardCharsets.UTF_8);
    List<String> problems = new JsonKvTransferConfigReader().read(json, ConnectorConfig.builder());
    ConnectorConfig config;
    try {
      config = builder().kvTransferConfig(json).build();
    } catch (ConfigurationException e) {
      assertThat(e.problems()).hasSizeGreaterThanOrEqualTo(Math.max(1, problems.size()));
      for (String problem : e.problems()) {
        assertThat(problem).isNotBlank().hasSizeLessThan(LONGEST_PROBLEM);
        assertThat(problem.chars().anyMatch(Character::isISOControl)).as(problem).isFalse();
      }
      return;
    }
    assertThat(problems).isEmpty();
    if (config.extra().toString().contains("Infinity")) {
      return; // 1e400, say, which JSON can be read from and not written as
    }
    assertThat(builder().kvTransferConfig(written(config)).build()).isEqualTo(config);
  }

  private static ConnectorConfig.Builder builder() {
    return ConnectorConfig.builder().host("127.0.0.1").environment(Map.of());
  }

  private static String written(ConnectorConfig config) {
    Map<String, @Nullable Object> inner = new LinkedHashMap<>();
    inner.put("num_workers", config.numWorkers());
    inner.put("mooncake_protocol", config.protocol());
    inner.put("device_name", String.join(",", config.deviceNames()));
    Duration lease = config.leaseDuration();
    inner.put("kv_lease_duration", lease == null ? null : lease.toNanos() / 1e9);
    inner.put("bootstrap_server_address", config.bootstrapServerAddress());
    inner.put("bootstrap_allowed_hosts", config.bootstrapAllowedHosts());
    Map<String, Object> outer = new LinkedHashMap<>();
    outer.put("kv_connector", config.connectorName());
    outer.put("kv_role", config.role().configName());
    outer.put("engine_id", config.engineId());
    outer.put("kv_connector_extra_config", inner);
    // A known key that is among the others was at the wrong place.
    config
        .extra()
        .forEach((key, value) -> (inner.containsKey(key) ? outer : inner).put(key, value));
    return JSON.writeValueAsString(outer);
  }
}
