package dev.mooncake4j.core.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mooncake4j.connector.ConfigurationException;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.connector.spi.KvTransferConfigReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class JsonKvTransferConfigReaderTest {

  @Test
  void isFoundAsAService() {
    assertThat(ServiceLoader.load(KvTransferConfigReader.class))
        .hasAtLeastOneElementOfType(JsonKvTransferConfigReader.class);
  }

  @Test
  void theGuidesExamplesRead() {
    try (CapturedLog log = new CapturedLog()) {
      ConnectorConfig prefiller =
          read("{\"kv_connector\":\"MooncakeConnector\",\"kv_role\":\"kv_producer\"}");
      ConnectorConfig decoder =
          read("{\"kv_connector\":\"MooncakeConnector\",\"kv_role\":\"kv_consumer\"}");

      assertThat(prefiller.role()).isEqualTo(KvRole.PRODUCER);
      assertThat(decoder.role()).isEqualTo(KvRole.CONSUMER);
      assertThat(prefiller.connectorName()).isEqualTo("MooncakeConnector");
      assertThat(prefiller.engineId()).hasSize(36).isNotEqualTo(decoder.engineId());
      assertThat(prefiller.numWorkers()).isEqualTo(10);
      assertThat(prefiller.protocol()).isEqualTo("rdma");
      assertThat(prefiller.deviceNames()).isEmpty();
      assertThat(prefiller.leaseDuration()).isNull();
      assertThat(prefiller.bootstrapServerAddress()).isNull();
      assertThat(prefiller.extra()).isEmpty();
      assertThat(log.lines("WARN")).isEmpty();
    }
  }

  @Test
  void everyKeyReads() {
    ConnectorConfig config =
        read(
            """
            {"kv_connector": "Other", "kv_role": "kv_both", "engine_id": "engine-7",
             "kv_connector_extra_config": {
               "num_workers": 3, "mooncake_protocol": "tcp", "device_name": "mlx5_0, mlx5_1",
               "kv_lease_duration": 2.5, "bootstrap_server_address": "[fd00::1]:8998",
               "bootstrap_allowed_hosts": ["10.0.0.0/8", "*.cluster.local"],
               "peer_allowed_hosts": ["10.1.0.0/16"], "kv_cache_fingerprint": "Qwen bf16",
               "integrity_check": true, "send_while_prefill": true}}
            """);

    assertThat(config.connectorName()).isEqualTo("Other");
    assertThat(config.role()).isEqualTo(KvRole.BOTH);
    assertThat(config.engineId()).isEqualTo("engine-7");
    assertThat(config.numWorkers()).isEqualTo(3);
    assertThat(config.protocol()).isEqualTo("tcp");
    assertThat(config.deviceNames()).containsExactly("mlx5_0", "mlx5_1");
    assertThat(config.leaseDuration()).isEqualTo(Duration.ofMillis(2500));
    assertThat(config.bootstrapServerAddress()).isEqualTo("[fd00::1]:8998");
    assertThat(config.bootstrapAllowedHosts()).containsExactly("10.0.0.0/8", "*.cluster.local");
    assertThat(config.peerAllowedHosts()).containsExactly("10.1.0.0/16");
    assertThat(config.kvCacheFingerprint()).isEqualTo("Qwen bf16");
    assertThat(config.integrityCheck()).isTrue();
    assertThat(config.sendWhilePrefill()).isTrue();
  }

  @ParameterizedTest
  @CsvSource({"30,30000000000", "0.25,250000000", "1e2,100000000000", "86400,86400000000000"})
  void aLeaseIsAWholeOrBrokenNumberOfSeconds(String json, long nanos) {
    assertThat(read(inner("\"kv_lease_duration\": " + json)).leaseDuration())
        .isEqualTo(Duration.ofNanos(nanos));
  }

  @Test
  void nullMeansNotGiven() {
    ConnectorConfig config =
        read(
            """
            {"kv_connector": null, "kv_role": "kv_both", "engine_id": null,
             "kv_connector_extra_config": {
               "num_workers": null, "mooncake_protocol": null, "device_name": null,
               "kv_lease_duration": null, "bootstrap_server_address": null}}
            """);

    assertThat(config.connectorName()).isEqualTo(ConnectorConfig.MOONCAKE);
    assertThat(config.numWorkers()).isEqualTo(10);
    assertThat(config.leaseDuration()).isNull();
    assertThat(read("{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":null}").extra())
        .isEmpty();
  }

  @Test
  void vllmsOtherKeysAreIgnoredWithoutNoise() {
    try (CapturedLog log = new CapturedLog()) {
      ConnectorConfig config =
          read(
              """
              {"kv_role": "kv_both", "kv_rank": 0, "kv_parallel_size": 2, "kv_ip": "127.0.0.1",
               "kv_port": 14579, "kv_buffer_device": "cuda", "kv_buffer_size": 1e9,
               "kv_connector_module_path": null, "enable_permute_local_kv": false,
               "kv_load_failure_policy": "fail"}
              """);

      assertThat(config.extra()).isEmpty();
      assertThat(log.lines("WARN")).isEmpty();
      assertThat(log.lines("INFO")).isEmpty();
    }
  }

  @Test
  void unknownKeysWarnAndAreKeptAsPlainValues() {
    try (CapturedLog log = new CapturedLog()) {
      ConnectorConfig config =
          read(
              """
              {"kv_role": "kv_both", "colour": "blue",
               "kv_connector_extra_config": {
                 "num_worker": 4, "nested": {"list": [1, 2.5, true, null, "x"]}, "nothing": null}}
              """);

      assertThat(config.extra())
          .containsOnlyKeys("colour", "num_worker", "nested")
          .containsEntry("colour", "blue")
          .containsEntry("num_worker", 4);
      Object nested = config.extra().get("nested");
      assertThat(nested).isInstanceOf(Map.class);
      assertThat(((Map<?, ?>) nested).get("list"))
          .isEqualTo(java.util.Arrays.asList(1, 2.5, true, null, "x"));
      assertThat(log.lines("WARN"))
          .hasSize(4)
          .anyMatch(line -> line.contains("\"colour\" is kept and has no effect"))
          .anyMatch(line -> line.contains("\"num_worker\" is kept and has no effect"))
          .anyMatch(line -> line.contains("\"nested\""))
          .anyMatch(line -> line.contains("\"nothing\" is null and left out"));
    }
  }

  @Test
  void aKnownKeyAtTheWrongPlaceIsToldWhereItBelongs() {
    try (CapturedLog log = new CapturedLog()) {
      ConnectorConfig config =
          read(
              "{\"kv_role\":\"kv_both\",\"num_workers\":4,"
                  + "\"kv_connector_extra_config\":{\"engine_id\":\"e\"}}");

      assertThat(config.numWorkers()).isEqualTo(10);
      assertThat(config.engineId()).isNotEqualTo("e");
      assertThat(log.lines("WARN"))
          .anyMatch(line -> line.contains("it belongs inside kv_connector_extra_config"))
          .anyMatch(line -> line.contains("it belongs outside of kv_connector_extra_config"));
    }
  }

  @Test
  void aKeyCannotBreakTheLineOfTheLog() {
    try (CapturedLog log = new CapturedLog()) {
      read(inner("\"a\\nERROR b\": 1"));

      assertThat(log.lines("WARN")).singleElement().asString().contains("\"a\\nERROR b\"");
    }
  }

  @Test
  void everyProblemIsInOneMessage() {
    ConfigurationException refused =
        refusal(
            """
            {"kv_connector": 1, "kv_role": "kv_procuder", "engine_id": "",
             "kv_connector_extra_config": {
               "num_workers": 0, "mooncake_protocol": ["rdma"], "device_name": 5,
               "kv_lease_duration": -1, "bootstrap_server_address": "nowhere"}}
            """);

    assertThat(refused.problems())
        .hasSize(8)
        .anyMatch(p -> p.contains("kv_connector=1 is not a string"))
        .anyMatch(p -> p.contains("kv_role=\"kv_procuder\" is not one of"))
        .anyMatch(p -> p.contains("engine_id is empty"))
        .anyMatch(p -> p.contains("num_workers=0 is not within 1 to 1024"))
        .anyMatch(p -> p.contains("mooncake_protocol=[\"rdma\"] is not a string"))
        .anyMatch(p -> p.contains("device_name=5 is not a string"))
        .anyMatch(p -> p.contains("kv_lease_duration=-1 is not a number of seconds"))
        .anyMatch(p -> p.contains("bootstrap_server_address"));
    for (String problem : refused.problems()) {
      assertThat(refused).hasMessageContaining(problem);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"num_workers\": \"10\"",
        "\"num_workers\": 10.0",
        "\"num_workers\": true",
        "\"num_workers\": 1025",
        "\"num_workers\": -3",
        "\"num_workers\": 99999999999999999999",
        "\"num_workers\": {}",
        "\"mooncake_protocol\": \"\"",
        "\"mooncake_protocol\": \"r dma\"",
        "\"device_name\": [\"mlx5_0\"]",
        "\"kv_lease_duration\": \"30\"",
        "\"kv_lease_duration\": true",
        "\"kv_lease_duration\": 0",
        "\"kv_lease_duration\": 0.0000000001",
        "\"kv_lease_duration\": 86400.5",
        "\"kv_lease_duration\": 1e400",
        "\"kv_lease_duration\": 1e-999999999",
        "\"kv_lease_duration\": 123456789012345678901234567890",
        "\"sharedSecret\": \"0123456789abcdef\"",
        "\"shared-secret\": null",
        "\"peer_allowed_hosts\": \"host\"",
        "\"peer_allowed_hosts\": [\" \"]",
        "\"kv_cache_fingerprint\": 1",
        "\"kv_cache_fingerprint\": \" \"",
        "\"integrity_check\": \"true\"",
        "\"integrity_check\": 1",
        "\"send_while_prefill\": \"true\"",
        "\"send_while_prefill\": 0",
        "\"bootstrap_allowed_hosts\": \"host\"",
        "\"bootstrap_allowed_hosts\": {}",
        "\"bootstrap_allowed_hosts\": [\"host\", 1]",
        "\"bootstrap_allowed_hosts\": [\" \"]",
        "\"bootstrap_server_address\": 8998",
        "\"bootstrap_server_address\": \"\"",
        "\"bootstrap_server_address\": \"host\"",
        "\"bootstrap_server_address\": \"host:99999\"",
        "\"bootstrap_server_address\": \"0.0.0.0:8998\"",
      })
  void aWrongTypeOrValueIsRefusedByName(String member) {
    String key = member.substring(1, member.indexOf('"', 1));

    assertThat(refusal("{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{" + member + "}}"))
        .satisfies(e -> assertThat(e.problems()).singleElement().asString().contains(key));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "   ",
        "null",
        "[]",
        "\"kv_both\"",
        "42",
        "{",
        "{\"kv_role\":\"kv_both\"",
        "{\"kv_role\":\"kv_both\"} trailing",
        "{\"kv_role\":\"kv_both\"}{}",
        "{\"kv_role\":\"kv_both\",}",
        "{'kv_role':'kv_both'}",
        "{\"kv_role\":\"kv_both\",\"kv_role\":\"kv_both\"}",
        "{\"kv_role\":\"kv_both\",\"x\":{\"a\":1,\"a\":2}}",
        "{\"kv_role\":\"kv_both\"} // comment",
        "{\"kv_role\":NaN}",
        "\u0000",
      })
  void whatIsNotOneJsonObjectIsRefused(String json) {
    ConfigurationException refused = refusal(json);
    assertThat(refused.problems())
        .singleElement()
        .asString()
        .contains("kv_transfer_config")
        .contains("object");
  }

  @ParameterizedTest
  @ValueSource(strings = {"\"kv_procuder\"", "\"\"", "3", "[]"})
  void aWrongRoleIsToldOnce(String role) {
    assertThat(refusal("{\"kv_role\":" + role + "}").problems())
        .singleElement()
        .asString()
        .startsWith("kv_role=" + role);
  }

  @Test
  void aTransportThatNoEngineHasIsRefusedWithThoseThatThereAre() {
    assertThat(refusal(inner("\"mooncake_protocol\": \"rmda\"")).problems())
        .singleElement()
        .asString()
        .startsWith("mooncake_protocol=rmda is no transport")
        .contains("nvlink_intra, nvmeof, rdma, tcp");
  }

  @Test
  void theSameUnknownKeyTwiceIsRefused() {
    assertThat(
            refusal("{\"kv_role\":\"kv_both\",\"x\":1,\"kv_connector_extra_config\":{\"x\":2}}")
                .problems())
        .singleElement()
        .asString()
        .contains("\"x\" is given inside and outside");
  }

  @Test
  void depthAndSizeAreLimited() {
    int tooDeep = JsonKvTransferConfigReader.MAX_DEPTH;
    String deep = "{\"x\":" + "[".repeat(tooDeep) + "]".repeat(tooDeep) + "}";
    assertThat(refusal(deep).problems().getFirst()).contains("nesting depth");
    String nested = "[".repeat(100_000);
    assertThat(refusal("{\"x\":" + nested).problems().getFirst()).contains("nesting depth");

    String large = "{\"x\":\"" + "y".repeat(JsonKvTransferConfigReader.MAX_CHARS) + "\"}";
    assertThat(refusal(large).problems().getFirst()).contains("characters=1048584");

    String longNumber = "{\"x\":" + "9".repeat(10_000) + "}";
    assertThat(refusal(longNumber).problems().getFirst()).contains("object");
  }

  @Test
  void aLongValueIsCutShortInTheMessage() {
    String message =
        refusal(
                "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{\"num_workers\":\""
                    + "9".repeat(100_000)
                    + "\"}}")
            .getMessage();

    assertThat(message).hasSizeLessThan(400).contains("num_workers");
  }

  @Test
  void theExtraConfigHasToBeAnObject() {
    assertThat(refusal("{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":[]}").problems())
        .singleElement()
        .asString()
        .contains("kv_connector_extra_config is not an object");
  }

  @Test
  void theBuilderOverridesTheJson() {
    ConnectorConfig config =
        builder()
            .numWorkers(7)
            .kvTransferConfig(
                "{\"kv_role\":\"kv_producer\",\"kv_connector_extra_config\":"
                    + "{\"num_workers\":3,\"mooncake_protocol\":\"tcp\"}}")
            .role(KvRole.CONSUMER)
            .build();

    assertThat(config.numWorkers()).isEqualTo(7);
    assertThat(config.role()).isEqualTo(KvRole.CONSUMER);
    assertThat(config.protocol()).isEqualTo("tcp");
  }

  @Test
  void aRoleThatIsMissingIsTold() {
    assertThatThrownBy(() -> read("{\"kv_connector\":\"MooncakeConnector\"}"))
        .isInstanceOf(ConfigurationException.class)
        .hasMessageContaining("kv_role is not set");
  }

  @Test
  void readingNeverThrows() {
    JsonKvTransferConfigReader reader = new JsonKvTransferConfigReader();
    String valid =
        "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{\"num_workers\":3,\"x\":[1.5]}}";
    for (int cut = 0; cut < valid.length(); cut++) {
      List<String> problems = reader.read(valid.substring(0, cut), ConnectorConfig.builder());
      assertThat(problems).as("cut at %d", cut).hasSize(1);
    }
    assertThat(reader.read(valid, ConnectorConfig.builder())).isEmpty();
  }

  @Test
  void theSharedSecretIsReadAndNeverShown(@TempDir Path folder) throws IOException {
    ConnectorConfig config = read(inner("\"shared_secret\": \"correct-horse-battery\""));
    assertThat(config.sharedSecret()).isEqualTo(SharedSecret.of("correct-horse-battery"));
    assertThat(config.toString()).doesNotContain("horse");

    Path file = Files.writeString(folder.resolve("secret"), "correct-horse-battery\n");
    assertThat(read(inner("\"shared_secret_file\": \"" + file + "\"")).sharedSecret())
        .isEqualTo(config.sharedSecret());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{\"shared_secret\":\"horse\"}}",
        "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{\"shared_secret\":[\"horse\"]}}",
        "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{\"shared_secret\":horse-battery}}",
        "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":"
            + "\"{\\\"shared_secret\\\":\\\"horse\\\"}\"}",
        "{\"kv_role\":\"kv_both\",\"shared_secret\":\"correct-horse-battery\"}",
        "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{"
            + "\"shared_secret\":\"correct-horse-battery\",\"shared_secret_file\":\"/nowhere\"}}"
      })
  void aSharedSecretThatCannotBeTakenIsRefusedAndNotShown(String json) {
    try (CapturedLog log = new CapturedLog()) {
      ConfigurationException refusal = refusal(json);
      assertThat(refusal).isNotNull().hasMessageNotContaining("horse");
      assertThat(refusal.problems()).isNotEmpty();
      for (String level : List.of("DEBUG", "INFO", "WARN", "ERROR")) {
        assertThat(String.join("", log.lines(level))).doesNotContain("horse");
      }
    }
  }

  private static String inner(String members) {
    return "{\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{" + members + "}}";
  }

  private static ConnectorConfig.Builder builder() {
    return ConnectorConfig.builder().host("127.0.0.1").environment(Map.of());
  }

  private static ConnectorConfig read(String json) {
    return builder().kvTransferConfig(json).build();
  }

  private static ConfigurationException refusal(String json) {
    return catchThrowableOfType(ConfigurationException.class, () -> read(json));
  }
}
