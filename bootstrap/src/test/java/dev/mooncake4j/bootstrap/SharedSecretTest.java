package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.json;
import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import dev.mooncake4j.connector.SharedSecret;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A server that asks for a shared secret, and the client that has it, has another, or has none. */
class SharedSecretTest {
  private static final String TEXT = "correct-horse-battery";
  private static final SharedSecret SECRET = SharedSecret.of(TEXT);
  private static final SharedSecret OTHER = SharedSecret.of("another-horse-battery");
  private static final RegisterRequest WORKER = worker("engine-P", 0, "tcp://127.0.0.1:37367");

  private static ServerFixture guarded() {
    return new ServerFixture(config -> config.withSecret(SECRET));
  }

  private static BootstrapClient client(@Nullable SharedSecret secret) {
    return new BootstrapClient(
        BootstrapClientConfig.withTimeout(Duration.ofSeconds(20)).withSecret(secret));
  }

  private static URI uri(ServerFixture fixture) {
    return BootstrapAddress.of("127.0.0.1", fixture.port());
  }

  /** A request with a header line of its own, or none. */
  private static RawHttp.Response ask(int port, String method, String path, String header)
      throws IOException {
    byte[] body = method.equals("POST") ? json(WORKER).getBytes(StandardCharsets.UTF_8) : null;
    String request =
        new String(RawHttp.request(method, path, "application/json", body), StandardCharsets.UTF_8);
    try (RawHttp http = new RawHttp(port)) {
      return http.send(request.replaceFirst("\r\n", "\r\n" + header)).response();
    }
  }

  @Test
  void whoBringsItIsServed() throws Exception {
    try (ServerFixture fixture = guarded();
        BootstrapClient client = client(SECRET)) {
      client.register(uri(fixture), WORKER);
      assertThat(fixture.engine().addr(0, 0)).isEqualTo(WORKER.addr());
      assertThat(
              client.query(uri(fixture)).toCompletableFuture().get(20, TimeUnit.SECONDS).engines())
          .hasSize(1);
      assertThat(client.deregister(uri(fixture), WORKER)).isTrue();
      assertThat(fixture.server.query().engines()).isEmpty();
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "Authorization: Bearer another-horse-battery\r\n",
        "Authorization: Bearer correct-horse-batter\r\n",
        "Authorization: Bearer correct-horse-battery-\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: correct-horse-battery\r\n",
        "Authorization: Basic correct-horse-battery\r\n",
        "Authorization: Bearer wrong-horse-battery\r\nAuthorization: Bearer correct-horse-battery\r\n",
        "X-Authorization: Bearer correct-horse-battery\r\n",
      })
  void whoDoesNotIsToldWhatToDoAndChangesNothing(String header) throws IOException {
    try (ServerFixture fixture = guarded()) {
      fixture.server.register(worker("engine-P", 1, "tcp://127.0.0.1:37368"));
      QueryAnswer before = fixture.server.query();
      for (String path : new String[] {"/register", "/deregister", "/query", "/", "/docs"}) {
        for (String method : new String[] {"GET", "POST"}) {
          RawHttp.Response response = ask(fixture.port(), method, path, header);
          assertThat(response.status()).as("%s %s", method, path).isEqualTo(401);
          assertThat(response.headers())
              .containsEntry("www-authenticate", "Bearer")
              .containsEntry("connection", "close");
          assertThat(response.json().get("detail").stringValue())
              .contains("Authorization: Bearer", "MOONCAKE4J_SHARED_SECRET")
              .doesNotContain("horse");
        }
      }
      assertThat(fixture.server.query()).isSameAs(before);
    }
  }

  @Test
  void theFormIsTheFieldsOwn() throws IOException {
    try (ServerFixture fixture = guarded()) {
      for (String header :
          new String[] {
            "authorization: bearer " + TEXT + "\r\n", "AUTHORIZATION:BEARER  " + TEXT + " \r\n"
          }) {
        assertThat(ask(fixture.port(), "GET", "/query", header).status()).isEqualTo(200);
      }
    }
  }

  @Test
  void itsHealthIsForAll() throws IOException {
    try (ServerFixture fixture = guarded()) {
      assertThat(ask(fixture.port(), "GET", "/health", "").status()).isEqualTo(200);
      assertThat(ask(fixture.port(), "GET", "/health?x", "").status()).isEqualTo(200);
      assertThat(ask(fixture.port(), "GET", "/health/../query", "").status()).isEqualTo(401);
      assertThat(ask(fixture.port(), "GET", "/%68ealth", "").status()).isEqualTo(200);
      assertThat(ask(fixture.port(), "GET", "//health", "").status()).isEqualTo(401);
    }
  }

  @Test
  void theBodyOfOneWhoMayNotComeInIsNotRead() throws IOException {
    try (ServerFixture fixture = guarded();
        RawHttp http = new RawHttp(fixture.port())) {
      http.send("POST /register HTTP/1.1\r\nContent-Length: 60000\r\nExpect: 100-continue\r\n\r\n");
      assertThat(http.response().status()).isEqualTo(401);
      http.closeOutput();
      assertThat(http.isClosedByServer()).isTrue();
    }
  }

  @Test
  void aRefusalIsFinalAndSaysWhatToSet() throws Exception {
    try (ServerFixture fixture = guarded();
        BootstrapClient without = client(null);
        BootstrapClient wrong = client(OTHER)) {
      BootstrapException none =
          catchThrowableOfType(
              BootstrapException.class, () -> without.register(uri(fixture), WORKER));
      assertThat(none.reason()).isEqualTo(Reason.REJECTED);
      assertThat(none.status()).isEqualTo(401);
      assertThat(none.attempts()).isEqualTo(1);
      assertThat(none)
          .hasMessageContaining("MOONCAKE4J_SHARED_SECRET")
          .hasMessageEndingWith("; no shared_secret is set here: set the server's");

      assertThatThrownBy(
              () -> wrong.query(uri(fixture)).toCompletableFuture().get(20, TimeUnit.SECONDS))
          .isInstanceOf(ExecutionException.class)
          .cause()
          .isInstanceOf(BootstrapException.class)
          .hasMessageContaining("attempts=1")
          .hasMessageEndingWith(
              "; the shared_secret set here is not the server's: set the same on both")
          .hasMessageNotContaining("horse");
      assertThat(wrong.deregister(uri(fixture), WORKER)).isFalse();
    }
  }

  @Test
  void aServerThatAsksForNoneTakesWhoBringsOne() {
    try (ServerFixture fixture = new ServerFixture();
        BootstrapClient client = client(SECRET)) {
      client.register(uri(fixture), WORKER);
      assertThat(fixture.server.query().engines()).hasSize(1);
    }
  }

  @Test
  void whereNoneIsSetNothingIsSent() throws Exception {
    String ok = "{\"status\":\"ok\"}";
    try (FakeServer server =
            new FakeServer(FakeServer.answer(200, ok), FakeServer.answer(200, "{}"));
        BootstrapClient client = client(null)) {
      client.register(server.uri(), WORKER);
      client.query(server.uri()).toCompletableFuture().get(20, TimeUnit.SECONDS);
      client.deregister(server.uri(), WORKER);
      assertThat(server.requests)
          .hasSize(3)
          .allSatisfy(
              request ->
                  assertThat(request.toLowerCase(Locale.ROOT)).doesNotContain("authorization"));
    }
  }

  @Test
  void configurationsDoNotShowIt() {
    assertThat(BootstrapServerConfig.onPort(0).withSecret(SECRET).withHost("h").toString())
        .contains("host=h")
        .doesNotContain("horse");
    assertThat(
            BootstrapClientConfig.withTimeout(Duration.ofSeconds(1)).withSecret(SECRET).toString())
        .doesNotContain("horse");
    assertThat(
            BootstrapServerConfig.onPort(0)
                .withSecret(SECRET)
                .withHost("h")
                .withIdleTimeout(Duration.ofSeconds(1))
                .withRequestTimeout(Duration.ofSeconds(1))
                .withMaxConnections(1)
                .withProbeTimeout(Duration.ofSeconds(1))
                .secret())
        .isEqualTo(SECRET);
    assertThat(
            BootstrapClientConfig.withTimeout(Duration.ofSeconds(1))
                .withSecret(SECRET)
                .withAllowedHosts(host -> true)
                .withNanoTime(() -> 0)
                .withDelayer((delay, task) -> () -> {})
                .secret())
        .isEqualTo(SECRET);
  }
}
