package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConnectorConfigTest {
  private static final String PORT = "VLLM_MOONCAKE_BOOTSTRAP_PORT";
  private static final String TIMEOUT = "VLLM_MOONCAKE_CONNECTOR_TIMEOUT";
  private static final String ABORT = "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT";

  private static ConnectorConfig.Builder builder() {
    return ConnectorConfig.builder().role(KvRole.PRODUCER).environment(Map.of());
  }

  private static List<String> problemsOf(ConnectorConfig.Builder builder) {
    return catchThrowableOfType(ConfigurationException.class, builder::build).problems();
  }

  @Test
  void hasTheDefaultsOfTheConnectorItStandsFor() {
    ConnectorConfig config = builder().build();
    assertThat(config.connectorName()).isEqualTo("MooncakeConnector");
    assertThat(config.role()).isEqualTo(KvRole.PRODUCER);
    assertThat(UUID.fromString(config.engineId())).isNotNull();
    assertThat(config.modelName()).isEmpty();
    assertThat(config.host()).isEqualTo(HostAddresses.ofThisHost());
    assertThat(config.masterHost()).isNull();
    assertThat(config.numWorkers()).isEqualTo(10);
    assertThat(config.protocol()).isEqualTo("rdma");
    assertThat(config.deviceNames()).isEmpty();
    assertThat(config.leaseDuration()).isNull();
    assertThat(config.bootstrapServerAddress()).isNull();
    assertThat(config.bootstrapAllowedHosts()).isEmpty();
    assertThat(config.bootstrapPort()).isEqualTo(8998);
    assertThat(config.connectorTimeout()).isEqualTo(Duration.ofSeconds(30));
    assertThat(config.abortRequestTimeout()).isEqualTo(Duration.ofMinutes(8));
    assertThat(config.cacheSpec()).isEqualTo(KvCacheSpec.fullAttention(16));
    assertThat(config.engineLibrary()).isNull();
    assertThat(config.extra()).isEmpty();
  }

  @Test
  void everyEngineHasAnIdOfItsOwn() {
    assertThat(builder().build().engineId()).isNotEqualTo(builder().build().engineId());
  }

  @Test
  void takesWhatTheSettersSay() {
    KvCacheSpec spec = KvCacheSpec.fullAttention(32);
    ConnectorConfig config =
        builder()
            .connectorName("Other")
            .role(KvRole.BOTH)
            .engineId("e-1")
            .modelName("m")
            .host("10.0.0.1")
            .masterHost("10.0.0.2")
            .numWorkers(3)
            .protocol("tcp")
            .deviceName(" mlx5_0,mlx5_1 ,,")
            .leaseDuration(Duration.ofSeconds(9))
            .bootstrapServerAddress("[::1]:9000")
            .bootstrapAllowedHosts(List.of("a", "*.b"))
            .peerAllowedHosts(List.of("10.0.0.0/8"))
            .kvCacheFingerprint("Qwen bf16")
            .integrityCheck(true)
            .sendWhilePrefill(true)
            .bootstrapPort(0)
            .connectorTimeout(Duration.ofMillis(1))
            .abortRequestTimeout(Duration.ofDays(1))
            .cacheSpec(spec)
            .engineLibrary(Path.of("engine.so"))
            .sharedSecret("0123456789abcdef")
            .extra("key", 7)
            .build();
    assertThat(config)
        .isEqualTo(
            new ConnectorConfig(
                "Other",
                KvRole.BOTH,
                "e-1",
                "m",
                "10.0.0.1",
                "10.0.0.2",
                3,
                "tcp",
                List.of("mlx5_0", "mlx5_1"),
                Duration.ofSeconds(9),
                "[::1]:9000",
                List.of("a", "*.b"),
                List.of("10.0.0.0/8"),
                "Qwen bf16",
                true,
                true,
                0,
                Duration.ofMillis(1),
                Duration.ofDays(1),
                spec,
                Path.of("engine.so"),
                SharedSecret.of("0123456789abcdef"),
                Map.of("key", 7)));
  }

  @Test
  void valuesOfUnknownKeysAreNotShown() {
    assertThat(builder().extra("token", "hunter2").build().toString())
        .contains("token")
        .doesNotContain("hunter2");
  }

  @Test
  void aLeaseThatCouldNotBeRenewedIsRefused() {
    assertThatThrownBy(() -> builder().leaseDuration(Duration.ofMillis(99)).build())
        .hasMessageContaining("kv_lease_duration=PT0.099S is too short");
    assertThat(builder().leaseDuration(Duration.ofMillis(100)).build().leaseDuration())
        .isEqualTo(Duration.ofMillis(100));
  }

  @Test
  void readsTheEnvironment() {
    ConnectorConfig config =
        builder()
            .environment(Map.of("VLLM_HOST_IP", "10.1.2.3", PORT, "0", TIMEOUT, "2.5", ABORT, "60"))
            .build();
    assertThat(config.host()).isEqualTo("10.1.2.3");
    assertThat(config.bootstrapPort()).isZero();
    assertThat(config.connectorTimeout()).isEqualTo(Duration.ofMillis(2500));
    assertThat(config.abortRequestTimeout()).isEqualTo(Duration.ofMinutes(1));
  }

  @Test
  void anEmptyVariableIsAnUnsetOne() {
    ConnectorConfig config =
        builder()
            .environment(Map.of("VLLM_HOST_IP", " ", PORT, "", TIMEOUT, " ", ABORT, ""))
            .build();
    assertThat(config.host()).isEqualTo(HostAddresses.ofThisHost());
    assertThat(config.bootstrapPort()).isEqualTo(8998);
    assertThat(config.connectorTimeout()).isEqualTo(Duration.ofSeconds(30));
    assertThat(config.abortRequestTimeout()).isEqualTo(Duration.ofMinutes(8));
  }

  @Test
  void theSettersOverrideTheEnvironment() {
    Map<String, String> environment =
        Map.of("VLLM_HOST_IP", "10.1.2.3", PORT, "9001", TIMEOUT, "5", ABORT, "6");
    ConnectorConfig config =
        builder()
            .host("::1")
            .bootstrapPort(9002)
            .connectorTimeout(Duration.ofSeconds(7))
            .abortRequestTimeout(Duration.ofSeconds(8))
            .environment(environment)
            .build();
    assertThat(config.host()).isEqualTo("::1");
    assertThat(config.bootstrapPort()).isEqualTo(9002);
    assertThat(config.connectorTimeout()).isEqualTo(Duration.ofSeconds(7));
    assertThat(config.abortRequestTimeout()).isEqualTo(Duration.ofSeconds(8));
  }

  @Test
  void theEnvironmentIsCopied() {
    Map<String, String> environment = new HashMap<>(Map.of(PORT, "9001"));
    ConnectorConfig.Builder builder = builder().environment(environment);
    environment.put(PORT, "9002");
    assertThat(builder.build().bootstrapPort()).isEqualTo(9001);
  }

  @ParameterizedTest
  @ValueSource(strings = {"-1", "65536", "x", "80.5", "99999999999"})
  void aBadPortInTheEnvironmentIsAProblem(String text) {
    assertThat(problemsOf(builder().environment(Map.of(PORT, text))))
        .singleElement()
        .asString()
        .startsWith(PORT + "=" + text + " ");
  }

  @ParameterizedTest
  @ValueSource(strings = {"0", "-1", "86400.1", "NaN", "Infinity", "30s", "1e-12", "1e400", "half"})
  void aBadTimeInTheEnvironmentIsAProblem(String text) {
    assertThat(problemsOf(builder().environment(Map.of(TIMEOUT, text, ABORT, text))))
        .satisfiesExactly(
            p -> assertThat(p).startsWith(TIMEOUT + "=" + text + " "),
            p -> assertThat(p).startsWith(ABORT + "=" + text + " "));
  }

  @ParameterizedTest
  @CsvSource({"0.0.0.0, wildcard", "::, wildcard", "http://10.0.0.1, not a host"})
  void aBadHostInTheEnvironmentIsAProblem(String host, String why) {
    assertThat(problemsOf(builder().environment(Map.of("VLLM_HOST_IP", host))))
        .singleElement()
        .asString()
        .startsWith("VLLM_HOST_IP=" + host)
        .contains(why);
  }

  @Test
  void everyProblemIsInOneMessage() {
    ConnectorConfig.Builder builder =
        ConnectorConfig.builder()
            .engineId("")
            .host("0.0.0.0")
            .masterHost("*")
            .numWorkers(0)
            .protocol("TCP!")
            .leaseDuration(Duration.ZERO)
            .bootstrapServerAddress("::1:80")
            .bootstrapAllowedHosts(List.of("a", " "))
            .peerAllowedHosts(List.of(""))
            .kvCacheFingerprint("x".repeat(257))
            .bootstrapPort(65536)
            .connectorTimeout(Duration.ofSeconds(-1))
            .abortRequestTimeout(Duration.ofDays(1).plusNanos(1))
            .environment(Map.of(PORT, "x", TIMEOUT, "y", ABORT, "z"));
    List<String> expected =
        List.of(
            "engine_id is empty",
            "host=0.0.0.0",
            "master_host=*",
            "num_workers=0",
            "mooncake_protocol=TCP!",
            "kv_lease_duration=PT0S",
            "bootstrap_server_address: address=::1:80",
            "bootstrap_allowed_hosts has an empty entry",
            "peer_allowed_hosts has an empty entry",
            "kv_cache_fingerprint has characters=257",
            "bootstrap_port=65536",
            "connector_timeout=PT-1S",
            "abort_request_timeout=PT24H0.000000001S",
            PORT + "=x",
            TIMEOUT + "=y",
            ABORT + "=z",
            "kv_role is not set");
    ConfigurationException refused =
        catchThrowableOfType(ConfigurationException.class, builder::build);
    assertThat(refused.problems()).hasSameSizeAs(expected);
    for (int i = 0; i < expected.size(); i++) {
      assertThat(refused.problems().get(i)).startsWith(expected.get(i));
      assertThat(refused).hasMessageContaining(expected.get(i));
    }
    assertThat(refused).hasMessageContaining("problems=" + expected.size());
    // Asked again it says the same, and not more.
    assertThat(problemsOf(builder)).isEqualTo(refused.problems());
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 1024})
  void theEndsOfARangeAreWithinIt(int workers) {
    assertThat(builder().numWorkers(workers).build().numWorkers()).isEqualTo(workers);
    assertThat(problemsOf(builder().numWorkers(1025))).hasSize(1);
    assertThat(builder().bootstrapPort(65535).build().bootstrapPort()).isEqualTo(65535);
    assertThat(problemsOf(builder().bootstrapPort(-1))).hasSize(1);
  }

  @Test
  void aRoleIsNeeded() {
    assertThat(problemsOf(ConnectorConfig.builder().environment(Map.of())))
        .singleElement()
        .asString()
        .contains("kv_producer", "kv_consumer", "kv_both");
  }

  @Test
  void aJsonWithoutAReaderIsAProblemThatSaysWhatIsMissing() {
    assertThat(problemsOf(builder().kvTransferConfig("{\"kv_role\":\"kv_both\"}").numWorkers(0)))
        .satisfiesExactly(
            p -> assertThat(p).startsWith("num_workers=0"),
            p -> assertThat(p).contains("kv_transfer_config").contains("connector-core"));
    assertThatThrownBy(() -> ConnectorConfig.fromJson("{}"))
        .isInstanceOf(ConfigurationException.class)
        .hasMessageContaining("connector-core");
  }

  @Test
  void aConnectorThatIsNotThereIsNamed() {
    ConnectorConfig config = builder().connectorName("NixlConnector").build();
    assertThatThrownBy(() -> KvConnector.open(config))
        .isInstanceOf(ConfigurationException.class)
        .hasMessageContaining("kv_connector=NixlConnector")
        .hasMessageContaining("connector-core");
  }

  @Test
  void theCollectionsAreCopied() {
    List<String> devices = new ArrayList<>(List.of("mlx5_0"));
    ConnectorConfig.Builder builder = builder().extra("a", 1);
    ConnectorConfig config = builder.build();
    builder.extra("b", 2);
    assertThat(config.extra()).containsOnlyKeys("a");
    ConnectorConfig copy =
        new ConnectorConfig(
            config.connectorName(),
            config.role(),
            config.engineId(),
            config.modelName(),
            config.host(),
            null,
            1,
            "tcp",
            devices,
            null,
            null,
            devices,
            devices,
            null,
            false,
            false,
            1,
            config.connectorTimeout(),
            config.abortRequestTimeout(),
            config.cacheSpec(),
            null,
            null,
            Map.of());
    devices.clear();
    assertThat(copy.deviceNames()).containsExactly("mlx5_0");
    assertThat(copy.bootstrapAllowedHosts()).containsExactly("mlx5_0");
    assertThat(copy.peerAllowedHosts()).containsExactly("mlx5_0");
  }

  @Test
  void aProblemIsOneLineOfSomeLengthWhateverWasGiven() {
    assertThat(problemsOf(builder().protocol("tcp\r\nERROR all is lost\u001b[2J")))
        .singleElement()
        .asString()
        .startsWith("mooncake_protocol=tcp??ERROR all is lost?[2J is no transport");
    assertThat(problemsOf(builder().protocol("x".repeat(100_000))))
        .singleElement()
        .asString()
        .hasSizeLessThan(1000)
        .startsWith("mooncake_protocol=xxx")
        .contains("xxx…xxx")
        .endsWith("tcp, ub, ubshmem]");
  }
}
