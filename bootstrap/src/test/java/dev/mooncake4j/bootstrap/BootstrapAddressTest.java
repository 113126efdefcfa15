package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.InstanceOfAssertFactories.type;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import java.net.URI;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class BootstrapAddressTest {

  @ParameterizedTest
  @CsvSource({
    "http://10.0.0.1:8998,          http://10.0.0.1:8998",
    "http://10.0.0.1:8998/,         http://10.0.0.1:8998",
    "HTTP://Host.Example:8998,      http://Host.Example:8998",
    "https://host,                  https://host",
    "http://[::1]:8998,             http://[::1]:8998",
    "http://[fd00::1]:8998/,        http://[fd00::1]:8998",
    "http://[fd00::1],              http://[fd00::1]",
    "http://fd00::1:8998,           http://[fd00::1]:8998",
    "http://::1:8998,               http://[::1]:8998",
    "http://1:2:3:4:5:6:7:8:8998,   http://[1:2:3:4:5:6:7:8]:8998",
    "http://1:2:3:4:5:6:7:8,        http://[1:2:3:4:5:6:7:8]",
    "http://::ffff:10.0.0.1:8998,   http://[::ffff:10.0.0.1]:8998",
    "http://::ffff:10.0.0.1,        http://[::ffff:10.0.0.1]",
    "http://fd00::abcd,             http://[fd00::abcd]",
    "http://:::8998,                http://[::]:8998",
    "http://h:1,                    http://h:1",
    "http://h:65535,                http://h:65535",
  })
  void takesAnAddressAndWritesItInOneWay(String text, String written) {
    URI parsed = BootstrapAddress.parse(text);
    assertThat(parsed).hasToString(written);
    assertThat(BootstrapAddress.parse(parsed.toString())).isEqualTo(parsed);
    assertThat(parsed.resolve("/query")).hasToString(written + "/query");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "host:8998",
        "//host:8998",
        "ftp://host:8998",
        "file:///etc/passwd",
        "gopher://host:70",
        "javascript://host",
        " http://host:8998",
        "http://",
        "http:///",
        "http:///query",
        "http://:8998",
        "http://host:8998/query",
        "http://host:8998//",
        "http://host:8998?x",
        "http://host:8998/?x",
        "http://host:8998#x",
        "http://user@host:8998",
        "http://user:secret@host:8998",
        "http://host@evil:8998",
        "http://host:",
        "http://host:0",
        "http://host:65536",
        "http://host:99999999999",
        "http://host:-1",
        "http://host:+80",
        "http://host:80a",
        "http://ho st:8998",
        "http://host\r\nX: y:8998",
        "http://host\\evil:8998",
        "http://h%6fst:8998",
        "http://h\u00f6st:8998",
        "http://[::1:8998",
        "http://::1]:8998",
        "http://[host]:8998",
        "http://[::1]8998",
        "http://[]:8998",
        "http://[1::2::3]:8998",
        "http://[12345::]:8998",
        "http://[1:2:3:4:5:6:7:8:9]:8998",
        "http://[1:2:3:4:5:6:7::8]:1",
        "http://::::8998",
        "http://a:b:8998",
        "http://[::1%25lo/x]:8998",
        "http://under_score:8998",
      })
  void refusesAnythingElse(String text) {
    assertThatThrownBy(() -> BootstrapAddress.parse(text))
        .asInstanceOf(type(BootstrapException.class))
        .satisfies(
            e -> {
              assertThat(e.reason()).isEqualTo(Reason.ADDRESS);
              assertThat(e.attempts()).isZero();
              assertThat(e.getMessage()).contains("http://host:port").doesNotContain("\n");
            });
  }

  @Test
  void refusesATextWithoutEndAndRepeatsLittleOfIt() {
    assertThatThrownBy(() -> BootstrapAddress.parse("http://" + "a".repeat(1_000_000)))
        .isInstanceOf(BootstrapException.class)
        .satisfies(e -> assertThat(e.getMessage()).hasSizeLessThan(1000));
  }

  @Test
  void joinsHostAndPort() {
    assertThat(BootstrapAddress.of("h", 1)).hasToString("http://h:1");
    assertThat(BootstrapAddress.of("10.0.0.1", 65535)).hasToString("http://10.0.0.1:65535");
    assertThat(BootstrapAddress.of("fd00::1", 8998)).hasToString("http://[fd00::1]:8998");
    assertThat(BootstrapAddress.of("[fd00::1]", 8998)).hasToString("http://[fd00::1]:8998");
    assertThat(BootstrapAddress.of("fd00::8998", 1)).hasToString("http://[fd00::8998]:1");
    for (String host : new String[] {"", "a/b", "a:1", "a@b", "[a]"}) {
      assertThatThrownBy(() -> BootstrapAddress.of(host, 1)).isInstanceOf(BootstrapException.class);
    }
    for (int port : new int[] {0, -1, 65536}) {
      assertThatThrownBy(() -> BootstrapAddress.of("h", port))
          .isInstanceOf(BootstrapException.class);
    }
  }

  @Test
  void theHostThatAnAllowListSees() {
    assertThat(BootstrapAddress.hostOf(BootstrapAddress.parse("http://HOST.Example:1")))
        .isEqualTo("host.example");
    assertThat(BootstrapAddress.hostOf(BootstrapAddress.parse("http://[FD00::1]:1")))
        .isEqualTo("fd00::1");
  }

  @ParameterizedTest
  @CsvSource({
    "tcp://10.0.0.1:5,   10.0.0.1, 5",
    "tcp://[::1]:5,      ::1,      5",
    "tcp://fd00::1:5,    fd00::1,  5",
    "tcp://host_1:65535, host_1,   65535",
  })
  void readsAWorkersAddress(String text, String host, int port) {
    assertThat(HostPort.parseTcp(text)).isEqualTo(new HostPort(host, port));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "tcp://", "tcp://h", "tcp://h:0", "udp://h:1", "h:1", "tcp://[::1]"})
  void aWorkersAddressHasAPort(String text) {
    assertThat(HostPort.parseTcp(text)).isNull();
  }
}
