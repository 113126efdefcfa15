package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Addresses by their form alone. */
class HostPortTest {
  @ParameterizedTest
  @CsvSource({
    "h, h",
    "h:1, h:1",
    "Some-host_1.example:65535, Some-host_1.example:65535",
    "[::1], [::1]",
    "[::1]:80, [::1]:80",
    "::1, [::1]",
    "1:2:3:4:5:6:7:8, [1:2:3:4:5:6:7:8]",
    "1:2:3:4:5:6:7:8:80, [1:2:3:4:5:6:7:8]:80",
    "fe80::1%eth0, [fe80::1%eth0]",
    "[::ffff:10.0.0.1]:9, [::ffff:10.0.0.1]:9",
    "[1:2:3:4:5:6:10.0.0.1], [1:2:3:4:5:6:10.0.0.1]",
    "[::], [::]",
    "[ABCD::ef], [ABCD::ef]"
  })
  void understood(String text, String authority) {
    HostPort parsed = HostPort.parse(text);
    assertThat(parsed).isNotNull();
    if (parsed != null) {
      assertThat(parsed.authority()).isEqualTo(authority);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        ":1",
        "h:",
        "h:0",
        "h:65536",
        "h:123456",
        "h:8o",
        "h:-1",
        "h/x",
        "h h",
        "user@h",
        "[::1",
        "[h]:1",
        "[::1]x",
        "[::1]:",
        "[::1]1",
        "[::1::2]",
        "[:::]",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1:2:3:4::5:6:7:8]",
        "[12345::]",
        "[g::]",
        "[\u0661::]",
        "[::10.0.0]",
        "[::10.0.0.1.2]",
        "[::10.0.0.256]",
        "[::10..0.1]",
        "[::10.0.0.1234]",
        "[::1a.0.0.1]",
        "[10.0.0.1::]",
        "[::10.0.0.1:1]",
        "[fe80::1%]",
        "[fe80::1%a/b]",
        "1:2:3",
        "1:2:x:80"
      })
  void refused(String text) {
    assertThat(HostPort.parse(text)).isNull();
  }

  @ParameterizedTest
  @ValueSource(strings = {"h:1", "tcp://h", "tcp://", "TCP://h:1", "tcp://h:1/", "udp://h:1"})
  void noAddressOfAWorker(String text) {
    assertThat(HostPort.parseTcp(text)).isNull();
  }

  @ParameterizedTest
  @CsvSource({"tcp://h:1, h:1", "tcp://[::1]:2, [::1]:2"})
  void addressesOfWorkers(String text, String authority) {
    HostPort parsed = HostPort.parseTcp(text);
    assertThat(parsed).isNotNull();
    if (parsed != null) {
      assertThat(parsed.authority()).isEqualTo(authority);
    }
  }
}
