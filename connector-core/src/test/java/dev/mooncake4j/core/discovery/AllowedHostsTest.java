package dev.mooncake4j.core.discovery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.ConfigurationException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A decoder asks at no host that it is not to ask. */
class AllowedHostsTest {
  private static final String KEY = "bootstrap_allowed_hosts";
  private static final AllowedHosts ANY = AllowedHosts.of(KEY, List.of());
  private static final AllowedHosts SOME =
      AllowedHosts.of(
          KEY, List.of("Prefiller-1", "*.cluster.local", "10.2.0.0/15", "192.0.2.7", "fd00::/8"));

  @ParameterizedTest
  @ValueSource(
      strings = {
        "127.0.0.1",
        "::1",
        "localhost",
        "10.0.0.1",
        "fd00::1",
        "prefiller.example",
        "a_b"
      })
  void withoutAListServersOfAClusterAreAsked(String host) {
    assertThat(ANY.allow(host)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "169.254.169.254",
        "169.254.43518",
        "2852039166",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fe80::1%eth0",
        "fe80::1%25no-such-interface",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "::"
      })
  void withoutAListAddressesThatNoServerHasAreNotAsked(String host) {
    assertThat(ANY.allow(host)).isFalse();
    assertThat(SOME.allow(host)).isFalse();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "prefiller-1",
        "p.cluster.local",
        "a.b.cluster.local",
        "10.2.0.0",
        "10.3.255.255",
        "10.0.255.255.cluster.local",
        "192.0.2.7",
        "::ffff:192.0.2.7",
        "fdff::9"
      })
  void aListAllowsWhatIsOnIt(String host) {
    assertThat(SOME.allow(host)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "prefiller-11",
        "cluster.local",
        "xcluster.local",
        "p.cluster.local.evil.example",
        "10.4.0.0",
        "10.1.255.255",
        "192.0.2.8",
        "fe00::1",
        "localhost",
        "127.0.0.1",
        "10.1.evil.example"
      })
  void aListAllowsNothingElse(String host) {
    assertThat(SOME.allow(host)).isFalse();
  }

  @Test
  void aLinkLocalAddressIsAskedWhereItIsListed() {
    assertThat(AllowedHosts.of(KEY, List.of("169.254.7.7")).allow("169.254.7.7")).isTrue();
    assertThat(AllowedHosts.of(KEY, List.of("0.0.0.0/0", "::/0")).allow("169.254.7.7")).isTrue();
  }

  @Test
  void everyEntryThatIsNoHostIsTold() {
    assertThatThrownBy(
            () ->
                AllowedHosts.of(
                    KEY,
                    List.of(
                        "http://h",
                        "h:80",
                        "10.0.0.0/33",
                        "10.0.0.0/x",
                        "*",
                        "a b",
                        "",
                        "ok",
                        "fd00::/129",
                        "h/8")))
        .isInstanceOf(ConfigurationException.class)
        .hasMessageContaining("=http://h ")
        .hasMessageContaining("=h:80 ")
        .hasMessageContaining("=10.0.0.0/33 ")
        .hasMessageContaining("=10.0.0.0/x ")
        .hasMessageContaining("=* ")
        .hasMessageContaining("=a b ")
        .hasMessageContaining("=fd00::/129 ")
        .hasMessageContaining("=h/8 ")
        .hasMessageContaining("problems=9:");
  }

  @Test
  void theClientDoesNotAskAHostThatIsNotAllowed() {
    try (HttpBootstrap bootstrap = new HttpBootstrap(Duration.ofSeconds(20), ANY, null)) {
      for (String address :
          List.of("http://169.254.169.254:80", "http://[fe80::1]:8998", "https://0.0.0.0:1")) {
        CompletableFuture<List<EngineAddresses>> asked =
            bootstrap.query(address).toCompletableFuture();
        assertThat(asked).as(address).isCompletedExceptionally();
        assertThatThrownBy(() -> asked.get(20, TimeUnit.SECONDS))
            .isInstanceOf(ExecutionException.class)
            .hasMessageContaining("list of allowed hosts");
      }
    }
  }
}
