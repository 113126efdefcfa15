package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.addr;
import static dev.mooncake4j.bootstrap.ServerFixture.sideChannel;
import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import java.io.IOException;
import java.net.ConnectException;
import java.net.ServerSocket;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

class BootstrapClientTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final RegisterRequest WORKER = worker("engine-P", 0, "tcp://127.0.0.1:37367");
  private static final String OK = "{\"status\":\"ok\"}";
  private static final String ANSWER =
      "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{\"0\":\"tcp://h:1\"}}}}";

  private final ManualDelayer delayer = new ManualDelayer();
  private final AtomicLong clock = new AtomicLong();
  private final BootstrapClient client =
      new BootstrapClient(
          BootstrapClientConfig.withTimeout(TIMEOUT)
              .withDelayer(delayer)
              .withNanoTime(clock::get)
              .withAllowedHosts(host -> !host.equals("forbidden.example")));
  private final ExecutorService callers = Executors.newCachedThreadPool();

  @AfterEach
  void stop() {
    client.close();
    callers.shutdownNow();
  }

  private Future<?> registering(URI server) {
    return callers.submit(() -> client.register(server, WORKER));
  }

  private CompletableFuture<QueryAnswer> querying(URI server) {
    return client.query(server).toCompletableFuture();
  }

  private static BootstrapException failureOf(Future<?> future) throws Exception {
    try {
      future.get(20, TimeUnit.SECONDS);
    } catch (ExecutionException e) {
      assertThat(e.getCause()).isInstanceOf(BootstrapException.class);
      return (BootstrapException) e.getCause();
    }
    throw new AssertionError("no failure");
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = sideChannel()) {
      return socket.getLocalPort();
    }
  }

  @Test
  void sendsWhatVllmSends() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.answer(200, OK))) {
      client.register(server.uri(), WORKER);
      String captured = Resources.capture("http_register.json").get("request_raw").stringValue();
      String sent = server.requests.getFirst();
      assertThat(sent).startsWith("POST /register HTTP/1.1\r\n");
      assertThat(sent.toLowerCase(Locale.ROOT))
          .contains("content-length: 91\r\n", "content-type: application/json\r\n")
          .doesNotContain("upgrade", "http2-settings", "transfer-encoding", "expect");
      assertThat(body(sent)).isEqualTo(body(captured));
      assertThat(server.requests).hasSize(1);
    }
    try (FakeServer server = new FakeServer(FakeServer.answer(200, ANSWER))) {
      querying(server.uri()).get(20, TimeUnit.SECONDS);
      assertThat(server.requests.getFirst())
          .startsWith("GET /query HTTP/1.1\r\n")
          .doesNotContainIgnoringCase("upgrade");
    }
  }

  private static JsonNode body(String request) {
    return Json.MAPPER.readTree(request.substring(request.indexOf("\r\n\r\n") + 4));
  }

  @Test
  void withOurServer() throws Exception {
    try (ServerFixture fixture = new ServerFixture();
        ServerSocket alive = sideChannel()) {
      URI server = BootstrapAddress.of("127.0.0.1", fixture.port());
      RegisterRequest worker = worker("e", 0, addr(alive));
      assertThat(querying(server).get(20, TimeUnit.SECONDS).engines()).isEmpty();
      client.register(server, worker);
      client.register(server, worker);
      QueryAnswer answer = querying(URI.create(server + "/")).get(20, TimeUnit.SECONDS);
      assertThat(answer).isEqualTo(fixture.server.query());
      assertThat(answer.engine("e")).isNotNull();
      assertThat(answer.engine("f")).isNull();
      assertThatThrownBy(() -> client.register(server, worker("e", 0, "tcp://h:1")))
          .hasMessageContainingAll(server + "/register", "status=400", addr(alive), "tcp://h:1");
      assertThat(client.deregister(server, worker)).isTrue();
      assertThat(fixture.server.query().engines()).isEmpty();
      client.register(server, worker("f", 0, "tcp://h:1"));
    }
  }

  @Test
  void aRefusedConnectionIsTriedAgainUntilTheServerIsUp() throws Exception {
    int port = freePort();
    Future<?> registering = registering(BootstrapAddress.of("127.0.0.1", port));
    delayer.fire(Duration.ofSeconds(1));
    await().atMost(TIMEOUT).until(() -> delayer.delays().contains(Duration.ofSeconds(2)));
    try (FakeServer server = new FakeServer(port, FakeServer.answer(200, OK))) {
      delayer.fire(Duration.ofSeconds(2));
      registering.get(20, TimeUnit.SECONDS);
      assertThat(server.requests).hasSize(1);
    }
    await().atMost(TIMEOUT).until(() -> delayer.delays().isEmpty());
  }

  @Test
  void afterThreeAttemptsTheFailureNamesUrlAttemptsAndLastCause() throws Exception {
    int port = freePort();
    Future<?> registering = registering(BootstrapAddress.of("127.0.0.1", port));
    delayer.fire(Duration.ofSeconds(1));
    clock.set(TimeUnit.MILLISECONDS.toNanos(1234));
    delayer.fire(Duration.ofSeconds(2));
    BootstrapException failure = failureOf(registering);
    assertThat(failure.reason()).isEqualTo(Reason.UNREACHABLE);
    assertThat(failure.attempts()).isEqualTo(3);
    assertThat(failure.url()).isEqualTo("http://127.0.0.1:" + port + "/register");
    assertThat(failure).hasCauseInstanceOf(ConnectException.class);
    assertThat(failure)
        .hasMessageContainingAll(
            "register failed: url=http://127.0.0.1:" + port + "/register",
            "attempts=3",
            "elapsed_ms=1234",
            "ConnectException");
  }

  @Test
  void resetsAndHangUpsAndHalfAnswersAreTriedAgain() throws Exception {
    try (FakeServer server =
        new FakeServer(
            FakeServer.reset(),
            FakeServer.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
            FakeServer.answer(200, OK))) {
      Future<?> registering = registering(server.uri());
      delayer.fire(Duration.ofSeconds(1));
      delayer.fire(Duration.ofSeconds(2));
      registering.get(20, TimeUnit.SECONDS);
      assertThat(server.requests).hasSize(3);
    }
    try (FakeServer server = new FakeServer(FakeServer.hangUp())) {
      Future<?> registering = registering(server.uri());
      delayer.fire(Duration.ofSeconds(1));
      delayer.fire(Duration.ofSeconds(2));
      assertThat(failureOf(registering).attempts()).isEqualTo(3);
    }
  }

  @Test
  void aLateAnswerIsTriedAgainAndItsConnectionIsClosed() throws Exception {
    try (FakeServer server =
        new FakeServer(
            FakeServer.silent(),
            (self, socket) -> {
              // The head is there in time, the body never comes.
              FakeServer.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{").serve(self, socket);
              assertThat(socket.getInputStream().read()).isEqualTo(-1);
              self.requests.add("closed");
            },
            FakeServer.answer(200, ANSWER))) {
      CompletableFuture<QueryAnswer> querying = querying(server.uri());
      await().atMost(TIMEOUT).until(() -> server.requests.size() == 1);
      delayer.fire(TIMEOUT);
      delayer.fire(Duration.ofMillis(100));
      await().atMost(TIMEOUT).until(() -> server.requests.size() == 2);
      delayer.fire(TIMEOUT);
      await().atMost(TIMEOUT).until(() -> server.requests.contains("closed"));
      delayer.fire(Duration.ofMillis(100));
      assertThat(querying.get(20, TimeUnit.SECONDS).engine("e")).isNotNull();
    }
  }

  @Test
  void aServerThatNeverAnswersFailsTheQueryAfterThreeAttempts() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.silent())) {
      CompletableFuture<QueryAnswer> querying = querying(server.uri());
      for (int attempt = 1; attempt <= 3; attempt++) {
        int sent = attempt;
        await().atMost(TIMEOUT).until(() -> server.requests.size() == sent);
        delayer.fire(TIMEOUT);
        if (attempt < 3) {
          delayer.fire(Duration.ofMillis(100));
        }
      }
      BootstrapException failure = failureOf(querying);
      assertThat(failure.reason()).isEqualTo(Reason.UNREACHABLE);
      assertThat(failure)
          .hasMessageContainingAll("query failed", "attempts=3", "no answer within", "30000");
    }
  }

  @Test
  void aLookIsOneAttemptOfItsOwnLength() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.silent())) {
      CompletableFuture<QueryAnswer> looking =
          client.look(server.uri(), Duration.ofSeconds(2)).toCompletableFuture();
      await().atMost(TIMEOUT).until(() -> server.requests.size() == 1);
      delayer.fire(Duration.ofSeconds(2));
      BootstrapException failure = failureOf(looking);
      assertThat(failure.reason()).isEqualTo(Reason.UNREACHABLE);
      assertThat(failure.attempts()).isEqualTo(1);
    }
    try (FakeServer server = new FakeServer(FakeServer.answer(200, ANSWER))) {
      assertThat(
              client
                  .look(server.uri(), Duration.ofSeconds(2))
                  .toCompletableFuture()
                  .get(20, TimeUnit.SECONDS)
                  .engines())
          .isNotEmpty();
    }
  }

  @Test
  void withItsOwnTimerItIsInTimeAsWell() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.silent());
        BootstrapClient quick =
            new BootstrapClient(BootstrapClientConfig.withTimeout(Duration.ofMillis(50)))) {
      CompletableFuture<QueryAnswer> querying = quick.query(server.uri()).toCompletableFuture();
      assertThat(failureOf(querying).attempts()).isEqualTo(3);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {300, 302, 307, 400, 404, 422, 500, 503})
  void anAnswerThatSaysNoIsFinal(int status) throws Exception {
    try (FakeServer elsewhere = new FakeServer(FakeServer.answer(200, ANSWER));
        FakeServer server =
            new FakeServer(
                FakeServer.answer(
                    status,
                    "Location: " + elsewhere.uri() + "/query\r\n",
                    "{\"detail\":\"no\\nsuch\"}"))) {
      for (Future<?> asking : List.of(registering(server.uri()), querying(server.uri()))) {
        BootstrapException failure = failureOf(asking);
        assertThat(failure.reason()).isEqualTo(Reason.REJECTED);
        assertThat(failure.status()).isEqualTo(status);
        assertThat(failure.attempts()).isEqualTo(1);
        assertThat(failure)
            .hasMessageContainingAll(server.uri().toString(), "status=" + status, "no?such");
      }
      assertThat(server.requests).hasSize(2);
      assertThat(elsewhere.requests).isEmpty();
    }
  }

  @Test
  void whatIsNotJsonIsToldAsItIs() throws Exception {
    try (FakeServer server =
        new FakeServer(FakeServer.answer(502, "<html>" + "x".repeat(100_000) + "</html>"))) {
      BootstrapException failure = failureOf(querying(server.uri()));
      assertThat(failure.status()).isEqualTo(502);
      assertThat(failure.getMessage()).contains("<html>xx").hasSizeLessThan(4000);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "hello", "[]", "null", "{\"0\":{}}", "{\"x\":1}"})
  void nonsenseIsFinal(String body) throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.answer(200, body))) {
      BootstrapException failure = failureOf(querying(server.uri()));
      assertThat(failure.reason()).isEqualTo(Reason.MALFORMED);
      assertThat(failure).hasMessageContaining(server.uri().toString());
      assertThat(server.requests).hasSize(1);
    }
  }

  @Test
  void anAnswerWithoutEndIsNotReadToItsEnd() throws Exception {
    String chunk = "10000\r\n" + " ".repeat(0x10000) + "\r\n";
    try (FakeServer server =
        new FakeServer(
            (self, socket) -> {
              FakeServer.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                  .serve(self, socket);
              while (true) {
                FakeServer.raw(chunk).serve(self, socket);
              }
            })) {
      BootstrapException failure = failureOf(querying(server.uri()));
      assertThat(failure.reason()).isEqualTo(Reason.MALFORMED);
      assertThat(failure).hasMessageContaining("limit_bytes=1048576");
      await("the client to hang up").atMost(TIMEOUT).until(() -> server.requests.size() == 2);
      assertThat(server.requests.get(1)).startsWith("ended with");
    }
  }

  @Test
  void anAddressThatMayNotBeAskedIsNotAsked() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.answer(200, ANSWER))) {
      for (String address :
          List.of(
              "ftp://127.0.0.1:" + server.port(),
              "http://127.0.0.1:" + server.port() + "/admin",
              "http://user@127.0.0.1:" + server.port(),
              "http://127.0.0.1:" + server.port() + "?x",
              "http://FORBIDDEN.example:" + server.port(),
              "opaque:x",
              "relative")) {
        BootstrapException failure = failureOf(querying(URI.create(address)));
        assertThat(failure.reason()).as(address).isEqualTo(Reason.ADDRESS);
        assertThat(failure.attempts()).isZero();
      }
      assertThat(server.requests).isEmpty();
      assertThat(delayer.delays()).isEmpty();
    }
  }

  @Test
  void anAllowListLetsThroughWhatIsOnIt() throws Exception {
    List<String> asked = new ArrayList<>();
    try (FakeServer server = new FakeServer(FakeServer.answer(200, ANSWER));
        BootstrapClient picky =
            new BootstrapClient(
                BootstrapClientConfig.withTimeout(TIMEOUT)
                    .withAllowedHosts(
                        host -> {
                          asked.add(host);
                          return host.equals("127.0.0.1");
                        }))) {
      picky.query(server.uri()).toCompletableFuture().get(20, TimeUnit.SECONDS);
      assertThat(asked).containsExactly("127.0.0.1");
    }
  }

  @Test
  void closingEndsWhatIsUnderWayAndIsQuick() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.silent())) {
      CompletableFuture<QueryAnswer> querying = querying(server.uri());
      Future<?> registering = registering(server.uri());
      Future<?> pausing = registering(BootstrapAddress.of("127.0.0.1", freePort()));
      await().atMost(TIMEOUT).until(() -> server.requests.size() == 2);
      await().atMost(TIMEOUT).until(() -> delayer.delays().contains(Duration.ofSeconds(1)));
      client.close();
      client.close();
      for (Future<?> future : List.of(querying, registering, pausing)) {
        assertThat(failureOf(future).reason()).isEqualTo(Reason.CLOSED);
      }
      assertThat(failureOf(querying(server.uri())).reason()).isEqualTo(Reason.CLOSED);
      assertThat(failureOf(registering(server.uri())).reason()).isEqualTo(Reason.CLOSED);
      assertThat(delayer.delays()).isEmpty();
    }
  }

  @Test
  void anInterruptedCallerIsLetGo() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.silent())) {
      CompletableFuture<Boolean> flag = new CompletableFuture<>();
      Thread caller =
          Thread.ofVirtual()
              .start(
                  () -> {
                    try {
                      client.register(server.uri(), WORKER);
                    } catch (BootstrapException e) {
                      flag.complete(
                          e.reason() == Reason.INTERRUPTED
                              && Thread.currentThread().isInterrupted());
                    }
                  });
      await().atMost(TIMEOUT).until(() -> server.requests.size() == 1);
      caller.interrupt();
      assertThat(flag.get(20, TimeUnit.SECONDS)).isTrue();
      await().atMost(TIMEOUT).until(() -> delayer.delays().isEmpty());
    }
  }

  @Test
  void waitingForManyHoldsNoThreadAndKeepsNobodyUp() throws Exception {
    try (FakeServer slow = new FakeServer(FakeServer.silent());
        FakeServer quick = new FakeServer(FakeServer.answer(200, ANSWER))) {
      List<CompletableFuture<QueryAnswer>> waiting = new ArrayList<>();
      for (int i = 0; i < 60; i++) {
        waiting.add(querying(slow.uri()));
      }
      await().atMost(TIMEOUT).until(() -> slow.requests.size() == 60);
      assertThat(querying(quick.uri()).get(20, TimeUnit.SECONDS).engine("e")).isNotNull();
      long threads =
          Thread.getAllStackTraces().keySet().stream()
              .filter(thread -> thread.getName().startsWith("m4j-bootstrap-client"))
              .count();
      assertThat(threads).isLessThanOrEqualTo(8);
      assertThat(waiting).noneMatch(CompletableFuture::isDone);
    }
  }

  @Test
  void aFarewellIsShortAndMayFail() throws Exception {
    assertThat(client.deregister(BootstrapAddress.of("127.0.0.1", freePort()), WORKER)).isFalse();
    try (FakeServer vllm = new FakeServer(FakeServer.answer(404, "{\"detail\":\"Not Found\"}"))) {
      assertThat(client.deregister(vllm.uri(), WORKER)).isFalse();
      assertThat(vllm.requests.getFirst()).startsWith("POST /deregister ");
    }
    try (FakeServer silent = new FakeServer(FakeServer.silent())) {
      Future<Boolean> farewell = callers.submit(() -> client.deregister(silent.uri(), WORKER));
      delayer.fire(Duration.ofSeconds(1));
      assertThat(farewell.get(20, TimeUnit.SECONDS)).isFalse();
      assertThat(silent.requests).hasSizeLessThanOrEqualTo(1);
    }
  }

  @Test
  void theCallerCannotCompleteTheAnswerForOthers() throws Exception {
    try (FakeServer server = new FakeServer(FakeServer.silent())) {
      var stage = client.query(server.uri());
      stage.toCompletableFuture().complete(QueryAnswer.EMPTY);
      assertThatThrownBy(() -> stage.toCompletableFuture().get(1, TimeUnit.MILLISECONDS))
          .isInstanceOf(TimeoutException.class);
    }
  }

  @Test
  void pausesDoubleUpToTenSeconds() {
    assertThat(List.of(2, 3, 4, 5, 6, 7, 100).stream().map(BootstrapClient::backOff))
        .containsExactly(
            Duration.ofSeconds(1),
            Duration.ofSeconds(2),
            Duration.ofSeconds(4),
            Duration.ofSeconds(8),
            Duration.ofSeconds(10),
            Duration.ofSeconds(10),
            Duration.ofSeconds(10));
  }

  @Test
  void configurationIsChecked() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> BootstrapClientConfig.withTimeout(Duration.ZERO))
        .withMessageContaining("request_timeout");
  }
}
