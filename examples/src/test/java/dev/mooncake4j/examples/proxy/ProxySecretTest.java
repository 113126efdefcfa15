package dev.mooncake4j.examples.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.bootstrap.BootstrapAddress;
import dev.mooncake4j.bootstrap.BootstrapServer;
import dev.mooncake4j.bootstrap.BootstrapServerConfig;
import dev.mooncake4j.bootstrap.RegisterRequest;
import dev.mooncake4j.connector.SharedSecret;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Prefillers whose bootstrap servers ask for a shared secret. */
class ProxySecretTest {
  private static final SharedSecret SECRET = SharedSecret.of("correct-horse-battery");

  @Test
  void theBootstrapServersAreAskedWithIt() throws InterruptedException {
    try (BootstrapServer server =
        BootstrapServer.start(
            BootstrapServerConfig.onPort(0).withHost("127.0.0.1").withSecret(SECRET))) {
      server.register(new RegisterRequest("engine", 0, 0, 0, "tcp://127.0.0.1:1"));
      Prefiller prefiller =
          new Prefiller(
              URI.create("http://127.0.0.1:1"), BootstrapAddress.of("127.0.0.1", server.port()));
      try (EngineDirectory with =
              new EngineDirectory(List.of(prefiller), Duration.ofMinutes(1), SECRET);
          EngineDirectory without =
              new EngineDirectory(List.of(prefiller), Duration.ofMinutes(1), null)) {
        with.awaitFirst(Duration.ofSeconds(20));
        without.awaitFirst(Duration.ofSeconds(20));
        assertThat(with.targets()).containsExactly(new PrefillTarget(prefiller, 0, "engine"));
        assertThat(without.targets()).isEmpty();
        assertThat(without.problems())
            .singleElement()
            .asString()
            .contains("status=401", "no shared_secret is set here");
      }
    }
  }

  @Test
  void itComesFromAFileOrTheEnvironment(@TempDir Path folder) throws IOException {
    Path file = Files.writeString(folder.resolve("secret"), "correct-horse-battery\n");
    Map<String, String> text = Map.of("MOONCAKE4J_SHARED_SECRET", "another-horse-battery");
    Map<String, String> inFile = Map.of("MOONCAKE4J_SHARED_SECRET_FILE", file.toString());
    List<String> problems = new ArrayList<>();
    assertThat(ProxyOptions.secret(null, Map.of(), problems)).isNull();
    assertThat(ProxyOptions.secret(file.toString(), text, problems)).isEqualTo(SECRET);
    assertThat(ProxyOptions.secret(null, inFile, problems)).isEqualTo(SECRET);
    assertThat(ProxyOptions.secret(null, text, problems))
        .isEqualTo(SharedSecret.of("another-horse-battery"));
    assertThat(problems).isEmpty();
    assertThat(ProxyOptions.secret(null, Map.of("MOONCAKE4J_SHARED_SECRET", "horse"), problems))
        .isNull();
    assertThat(ProxyOptions.secret(folder + "/none", Map.of(), problems)).isNull();
    assertThat(problems).hasSize(2).noneMatch(problem -> problem.contains("horse"));
  }
}
