package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class HostAddressesTest {
  @ParameterizedTest
  @CsvSource({
    "10.0.0.7, 10.0.0.7, 10.0.0.7:8998",
    "node-1.example, node-1.example, node-1.example:8998",
    "::1, ::1, [::1]:8998",
    "[::1], ::1, [::1]:8998",
    "2001:db8::7, 2001:db8::7, [2001:db8::7]:8998",
    "[2001:db8::7], 2001:db8::7, [2001:db8::7]:8998",
    "fe80::1%eth0, fe80::1%eth0, [fe80::1%eth0]:8998",
    "::ffff:10.0.0.7, ::ffff:10.0.0.7, [::ffff:10.0.0.7]:8998",
  })
  void anAddressRoundTripsWithAndWithoutBrackets(String host, String bare, String joined) {
    assertThat(HostAddresses.bare(host)).isEqualTo(bare);
    assertThat(HostAddresses.join(host, 8998)).isEqualTo(joined);
    assertThat(HostAddresses.hostOf(joined)).isEqualTo(bare);
    assertThat(HostAddresses.portOf(joined)).isEqualTo(8998);
    assertThat(HostAddresses.join(HostAddresses.hostOf(joined), HostAddresses.portOf(joined)))
        .isEqualTo(joined);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        ":",
        ":80",
        "host",
        "::1",
        "::1:80",
        "2001:db8::7:8998",
        "[]:80",
        "[::1]",
        "[::1:80",
        "http://host:80"
      })
  void whatIsNotHostAndPortIsRefused(String text) {
    assertThatThrownBy(() -> HostAddresses.hostOf(text))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("address=" + text);
    assertThatThrownBy(() -> HostAddresses.portOf(text))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("address=" + text);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "h:",
        "h:0",
        "h:+80",
        "h:65536",
        "h:-1",
        "h:8o",
        "h: 80",
        "h:99999999999",
        "h:80/",
        "[::1]:"
      })
  void aPortOutsideItsRangeIsRefused(String text) {
    assertThatThrownBy(() -> HostAddresses.portOf(text))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("address=" + text);
  }

  @Test
  void thePortsAtTheEndsAreTaken() {
    assertThat(HostAddresses.portOf("h:1")).isEqualTo(1);
    assertThat(HostAddresses.portOf("h:65535")).isEqualTo(65535);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "0.0.0.0",
        "::",
        "[::]",
        "*",
        "",
        "[]",
        "0:0:0:0:0:0:0:0",
        "::0",
        "0",
        "::0.0.0.0",
        "0000:0000:0000:0000:0000:0000:0000:0000"
      })
  void everyFormOfAWildcardIsOne(String host) {
    assertThat(HostAddresses.isWildcard(host)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"127.0.0.1", "::1", "[::1]", "10.0.0.0", "localhost", "0x1", "::f"})
  void otherHostsAreNoWildcards(String host) {
    assertThat(HostAddresses.isWildcard(host)).isFalse();
  }

  @Test
  void theAddressOfThisHostCanBeAdvertised() {
    List<String> problems = new ArrayList<>();
    String host = HostAddresses.ofThisHost();
    HostAddresses.checkAdvertised("host", host, problems);
    assertThat(problems).isEmpty();
    assertThat(host).doesNotContain("%").doesNotContain("[");
  }
}
