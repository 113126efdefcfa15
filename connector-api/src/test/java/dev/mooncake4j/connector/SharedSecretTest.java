package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SharedSecretTest {
  private static final String TEXT = "correct-horse-battery";
  private static final String OTHER = "another-horse-battery";

  private static ConnectorConfig.Builder builder(Map<String, String> environment) {
    return ConnectorConfig.builder()
        .role(KvRole.PRODUCER)
        .host("127.0.0.1")
        .environment(environment);
  }

  private static ConfigurationException refusal(ConnectorConfig.Builder builder) {
    return catchThrowableOfType(ConfigurationException.class, builder::build);
  }

  @Test
  void isComparedAndNotShown() {
    SharedSecret secret = SharedSecret.of(TEXT);
    assertThat(secret.matches(TEXT.getBytes(StandardCharsets.US_ASCII))).isTrue();
    assertThat(secret.matches(OTHER.getBytes(StandardCharsets.US_ASCII))).isFalse();
    assertThat(secret.matches(TEXT.substring(1).getBytes(StandardCharsets.US_ASCII))).isFalse();
    assertThat(secret.matches(new byte[0])).isFalse();
    assertThat(secret).isEqualTo(SharedSecret.of(TEXT)).isNotEqualTo(SharedSecret.of(OTHER));
    assertThat(secret).hasSameHashCodeAs(SharedSecret.of(OTHER));
    assertThat(secret.toString()).doesNotContain("horse");
    secret.reveal()[0] = 0;
    assertThat(secret.reveal()).isEqualTo(TEXT.getBytes(StandardCharsets.US_ASCII));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "horse-battery15",
        "correct horse battery",
        "correct-horse\tbattery",
        "hörse-hörse-hörse"
      })
  void whatIsNoSecretIsRefusedAndNotShown(String text) {
    assertThatThrownBy(() -> SharedSecret.of(text))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("16 to 128 printable ASCII characters")
        .hasMessageNotContainingAny("horse", "rse");
  }

  @Test
  void theLimitsAreWithin() {
    assertThat(SharedSecret.of("x".repeat(16)).reveal()).hasSize(16);
    assertThat(SharedSecret.of("~!".repeat(64)).reveal()).hasSize(128);
    assertThatThrownBy(() -> SharedSecret.of("x".repeat(129)))
        .hasMessageContaining("characters=129");
  }

  @Test
  void aFileMayEndItsLine(@TempDir Path folder) throws IOException {
    for (String end : List.of("", "\n", "\r\n")) {
      Path file = Files.writeString(folder.resolve("secret"), TEXT + end);
      assertThat(SharedSecret.ofFile(file)).isEqualTo(SharedSecret.of(TEXT));
    }
  }

  @Test
  void aFileThatHoldsNoneIsNamedAndNotShown(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("secret");
    assertThatThrownBy(() -> SharedSecret.ofFile(file))
        .hasMessageContaining(file + " cannot be read, cause=NoSuchFileException");
    Files.writeString(file, TEXT + "\n" + TEXT + "\n");
    assertThatThrownBy(() -> SharedSecret.ofFile(file))
        .hasMessageContaining("shared_secret_file=" + file)
        .hasMessageNotContaining("horse");
    Files.write(file, new byte[1 << 20]);
    assertThatThrownBy(() -> SharedSecret.ofFile(file)).hasMessageContaining("characters=1024");
  }

  @Test
  void theBuilderOverridesTheEnvironment(@TempDir Path folder) throws IOException {
    Path file = Files.writeString(folder.resolve("secret"), OTHER);
    Map<String, String> text = Map.of("MOONCAKE4J_SHARED_SECRET", TEXT);
    Map<String, String> inFile = Map.of("MOONCAKE4J_SHARED_SECRET_FILE", file.toString());
    assertThat(builder(Map.of()).build().sharedSecret()).isNull();
    assertThat(builder(Map.of("MOONCAKE4J_SHARED_SECRET", " ")).build().sharedSecret()).isNull();
    assertThat(builder(text).build().sharedSecret()).isEqualTo(SharedSecret.of(TEXT));
    assertThat(builder(inFile).build().sharedSecret()).isEqualTo(SharedSecret.of(OTHER));
    assertThat(builder(inFile).sharedSecret(TEXT).build().sharedSecret())
        .isEqualTo(SharedSecret.of(TEXT));
    assertThat(builder(text).sharedSecretFile(file).build().sharedSecret())
        .isEqualTo(SharedSecret.of(OTHER));
    assertThat(builder(text).build().toString()).doesNotContain("horse");
  }

  @Test
  void everyProblemIsToldByItsName(@TempDir Path folder) {
    Map<String, String> both = new HashMap<>();
    both.put("MOONCAKE4J_SHARED_SECRET", TEXT);
    both.put("MOONCAKE4J_SHARED_SECRET_FILE", folder.toString());
    assertThat(refusal(builder(both)).problems())
        .containsExactly(
            "MOONCAKE4J_SHARED_SECRET and MOONCAKE4J_SHARED_SECRET_FILE are both set: set one");
    assertThat(refusal(builder(Map.of("MOONCAKE4J_SHARED_SECRET", "horse"))))
        .hasMessageContaining("MOONCAKE4J_SHARED_SECRET has characters=5: give 16 to 128")
        .hasMessageNotContaining("horse");
    assertThat(refusal(builder(Map.of("MOONCAKE4J_SHARED_SECRET_FILE", "a\0b"))))
        .hasMessageContaining("MOONCAKE4J_SHARED_SECRET_FILE=");
    assertThat(
            refusal(builder(Map.of("MOONCAKE4J_SHARED_SECRET_FILE", folder + "/none"))).problems())
        .singleElement()
        .asString()
        .startsWith("MOONCAKE4J_SHARED_SECRET_FILE=" + folder + "/none cannot be read");
    assertThat(refusal(builder(Map.of()).sharedSecret(TEXT).sharedSecret(OTHER)))
        .hasMessageContaining("shared_secret is given twice")
        .hasMessageNotContaining("horse");
  }
}
