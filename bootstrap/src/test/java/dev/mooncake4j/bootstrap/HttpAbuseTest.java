package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.addr;
import static dev.mooncake4j.bootstrap.ServerFixture.json;
import static dev.mooncake4j.bootstrap.ServerFixture.sideChannel;
import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Clients that are slow, greedy, broken or hostile: each gets its answer, and harms nobody else.
 */
class HttpAbuseTest {
  private static final String QUERY = "GET /query HTTP/1.1\r\nHost: a\r\n\r\n";
  private static final String POST_HEAD =
      "POST /register HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";

  @AfterAll
  static void noBufferIsLeft() {
    assertThat(RecordingLeakDetector.leaks()).isEmpty();
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }

  /** The connection is answered with this status and then closed; others are served. */
  private static void assertEnds(ServerFixture fixture, RawHttp http, int status)
      throws IOException {
    RawHttp.Response response = http.response();
    assertThat(response.status()).isEqualTo(status);
    assertThat(response.headers()).containsEntry("connection", "close");
    assertThat(response.json().get("detail").stringValue()).isNotBlank();
    assertThat(http.isClosedByServer()).isTrue();
    assertThat(RawHttp.get(fixture.port(), "/query").status()).isEqualTo(200);
  }

  @Test
  void aConnectionServesManyRequests() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      for (int i = 0; i < 50; i++) {
        byte[] body = bytes(json(worker("e", i, "tcp://h:1")));
        http.send(RawHttp.request("POST", "/register", "application/json", body));
        assertThat(http.response().status()).isEqualTo(200);
        http.send(QUERY);
        assertThat(http.response().body()).contains("\"" + i + "\":{\"0\":");
      }
    }
  }

  @Test
  void pipelinedRequestsAreAnsweredInOrderHoweverMany() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      String[] requests = {QUERY, "GET /health HTTP/1.1\r\n\r\n", "GET /nope HTTP/1.1\r\n\r\n"};
      String[] answers = {"{}", "{\"status\":\"ok\"}", "{\"detail\":\"Not Found\"}"};
      StringBuilder all = new StringBuilder();
      for (int i = 0; i < 3000; i++) {
        all.append(requests[i % 3]);
      }
      http.send(all.toString());
      for (int i = 0; i < 3000; i++) {
        assertThat(http.response().body()).as("answer %d", i).isEqualTo(answers[i % 3]);
      }
    }
  }

  @Test
  void aRegistrationThatTakesTimeKeepsItsPlaceInTheOrder() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        ServerSocket alive = sideChannel();
        RawHttp http = new RawHttp(fixture.port())) {
      fixture.server.register(worker("old", 0, addr(alive)));
      byte[] body = bytes(json(worker("new", 0, "tcp://h:1")));
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      for (int i = 0; i < 20; i++) {
        all.writeBytes(RawHttp.request("POST", "/register", "application/json", body));
        all.writeBytes(bytes(QUERY));
      }
      http.send(all.toByteArray());
      for (int i = 0; i < 20; i++) {
        assertThat(http.response().status()).isEqualTo(400);
        assertThat(http.response().body()).contains("old");
      }
    }
  }

  @Test
  void anUpgradeOfferIsNotHeardAndItsBodyIsNotLost() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      String body = json(worker("e", 0, "tcp://h:1"));
      http.send(
          POST_HEAD
              + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
              + "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nContent-Length: "
              + body.length()
              + "\r\n\r\n"
              + body);
      RawHttp.Response response = http.response();
      assertThat(response.status()).isEqualTo(200);
      assertThat(response.headers()).doesNotContainKey("upgrade");
      assertThat(fixture.engine().addr(0, 0)).isEqualTo("tcp://h:1");
      assertThat(http.send(QUERY).response().status()).isEqualTo(200);
    }
  }

  @Test
  void http2WithoutAskingIsRefused() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(fixture, http.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\u0000\u0001\u0002\r\n\r\n",
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET /query\r\n\r\n",
        "GET /query FTP/1.1\r\n\r\n",
        "GET /query HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /query HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET /query HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /register HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "POST /register HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "POST /register HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003\r\n\r\n",
      })
  void whatIsNotHttpIsToldSo(String text) throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(fixture, http.send(text), 400);
    }
  }

  @Test
  void anAnnouncedBodyThatIsTooLongIsRefusedBeforeItIsSent() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(fixture, http.send(POST_HEAD + "Content-Length: 65537\r\n\r\n"), 413);
    }
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(
          fixture, http.send(POST_HEAD + "Content-Length: 9223372036854775807\r\n\r\n"), 413);
    }
  }

  @Test
  void aClientThatSendsATooLongBodyAllTheSameStillSeesTheAnswer() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      http.send(POST_HEAD + "Content-Length: 524288\r\n\r\n");
      http.send(new byte[524288]);
      assertThat(http.response().status()).isEqualTo(413);
      assertThat(http.rest()).isEmpty();
    }
  }

  @Test
  void aChunkedBodyIsTakenUpToTheLimit() throws IOException {
    String body = json(worker("e", 0, "tcp://h:1"));
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      http.send(POST_HEAD + "Transfer-Encoding: chunked\r\n\r\n");
      for (int i = 0; i < body.length(); i++) {
        http.send("1\r\n" + body.charAt(i) + "\r\n");
      }
      assertThat(http.send("0\r\n\r\n").response().status()).isEqualTo(200);
      assertThat(fixture.engine().engineId()).isEqualTo("e");
      http.send(POST_HEAD + "Transfer-Encoding: chunked\r\n\r\n");
      for (int i = 0; i < 65; i++) {
        http.send("400\r\n" + " ".repeat(1024) + "\r\n");
      }
      assertEnds(fixture, http, 413);
    }
  }

  @Test
  void manyTinyChunksAreNoBurden() throws IOException {
    try (ServerFixture fixture =
            new ServerFixture(config -> config.withRequestTimeout(Duration.ofMinutes(5)));
        RawHttp http = new RawHttp(fixture.port())) {
      http.send(
          POST_HEAD
              + "Transfer-Encoding: chunked\r\n\r\n"
              + "1\r\nx\r\n".repeat(20_000)
              + "0\r\n\r\n");
      assertThat(http.response().status()).isEqualTo(422);
      assertThat(http.send(QUERY).response().status()).isEqualTo(200);
    }
  }

  @Test
  void aBodyAtTheLimitIsRead() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      String body = json(worker("e", 0, "tcp://h:1"));
      body += " ".repeat(RequestHandler.MAX_BODY_BYTES - body.length());
      assertThat(RawHttp.postJson(fixture.port(), "/register", body).status()).isEqualTo(200);
    }
  }

  @Test
  void headersThatAreTooLongAreRefused() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(
          fixture, http.send("GET /query HTTP/1.1\r\nX: " + "x".repeat(17_000) + "\r\n\r\n"), 431);
    }
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(
          fixture, http.send("GET /query HTTP/1.1\r\n" + "X: y\r\n".repeat(5_000) + "\r\n"), 431);
    }
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(fixture, http.send("GET /query?" + "x".repeat(5_000) + " HTTP/1.1\r\n\r\n"), 414);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "G",
        "GET /query HTTP/1.1\r\nHost:",
        "POST /register HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        "POST /register HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "\r\n\r\n"
      })
  void aHalfSentRequestIsGivenUp(String half) throws IOException {
    try (ServerFixture fixture = new ServerFixture(ServerFixture::impatient);
        RawHttp http = new RawHttp(fixture.port())) {
      assertEnds(fixture, http.send(half), 408);
    }
  }

  /** Its bytes came before the time between two requests had begun. */
  @Test
  void aHalfSentRequestBehindAWholeOneIsGivenUp() throws IOException {
    try (ServerFixture fixture = new ServerFixture(ServerFixture::impatient);
        RawHttp http = new RawHttp(fixture.port())) {
      http.send(QUERY + "GET /query HTTP/1.1\r\nX: ");
      assertThat(http.response().status()).isEqualTo(200);
      assertEnds(fixture, http, 408);
    }
  }

  @Test
  void aHalfSentRequestWhoseClientIsGoneIsForgotten() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      http.send(POST_HEAD + "Content-Length: 10\r\n\r\n{").closeOutput();
      assertThat(http.isClosedByServer()).isTrue();
    }
  }

  @Test
  void aByteNowAndThenBuysNoTime() throws IOException {
    try (ServerFixture fixture = new ServerFixture(ServerFixture::impatient);
        RawHttp http = new RawHttp(fixture.port())) {
      assertThat(http.send(QUERY).response().status()).isEqualTo(200);
      http.send("GET /query HTTP/1.1\r\nX: ");
      // Within the time-out each time, and for longer than the test would wait for the answer.
      try (Drip drip = new Drip(http)) {
        assertEnds(fixture, http, 408);
        assertThat(drip.sent).isPositive();
      }
    }
  }

  /** Sends a byte every 50 ms until the connection breaks. */
  private static final class Drip implements AutoCloseable {
    private final Thread thread;
    private volatile boolean stop;
    private volatile int sent;

    @SuppressWarnings("NonAtomicVolatileUpdate") // Written by one thread.
    Drip(RawHttp http) {
      thread =
          Thread.ofPlatform()
              .daemon()
              .start(
                  () ->
                      await()
                          .pollInterval(Duration.ofMillis(50))
                          .atMost(Duration.ofSeconds(60))
                          .until(
                              () -> {
                                try {
                                  http.send("x");
                                  sent++;
                                  return stop;
                                } catch (IOException e) {
                                  return true;
                                }
                              }));
    }

    @Override
    public void close() {
      stop = true;
      try {
        thread.join(10_000);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  @Test
  void aConnectionOnWhichNothingComesIsClosed() throws IOException {
    try (ServerFixture fixture = new ServerFixture(ServerFixture::impatient);
        RawHttp http = new RawHttp(fixture.port())) {
      assertThat(http.isClosedByServer()).isTrue();
    }
    try (ServerFixture fixture =
            new ServerFixture(config -> config.withIdleTimeout(Duration.ofMillis(200)));
        RawHttp http = new RawHttp(fixture.port())) {
      assertThat(http.send(QUERY).response().status()).isEqualTo(200);
      assertThat(http.isClosedByServer()).isTrue();
    }
  }

  @Test
  void aClientThatDoesNotTakeItsAnswersIsNotReadAndIsClosed() throws IOException {
    try (ServerFixture fixture = new ServerFixture(ServerFixture::impatient);
        RawHttp http = new RawHttp(fixture.port())) {
      for (int i = 0; i < 500; i++) {
        fixture.server.register(new RegisterRequest("e", i, 0, 0, "tcp://" + "h".repeat(500)));
      }
      // Answers of 280 KB each: the kernel's buffers are full long before the last one.
      assertThatThrownBy(
              () -> {
                for (int i = 0; i < 1_000_000; i++) {
                  http.send(QUERY.repeat(100));
                }
              })
          .isInstanceOf(IOException.class);
      assertThat(RawHttp.get(fixture.port(), "/query").status()).isEqualTo(200);
    }
  }

  @Test
  void connectionsBeyondTheLimitAreToldSo() throws IOException {
    try (ServerFixture fixture = new ServerFixture(config -> config.withMaxConnections(3))) {
      List<RawHttp> open = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        open.add(new RawHttp(fixture.port()));
        assertThat(open.get(i).send(QUERY).response().status()).isEqualTo(200);
      }
      try (RawHttp fourth = new RawHttp(fixture.port())) {
        RawHttp.Response response = fourth.response();
        assertThat(response.status()).isEqualTo(503);
        assertThat(response.json().get("detail").stringValue()).isEqualTo("Too Many Connections");
        assertThat(fourth.isClosedByServer()).isTrue();
      }
      open.get(0).close();
      await()
          .atMost(Duration.ofSeconds(20))
          .until(
              () -> {
                try (RawHttp again = new RawHttp(fixture.port())) {
                  return again.send(QUERY).response().status() == 200;
                } catch (IOException e) {
                  // Refused before its request was read: the one before is still being closed.
                  return false;
                }
              });
      for (RawHttp http : open) {
        http.close();
      }
    }
  }

  @Test
  void queriesStayFastWhileSlowClientsSit() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      List<RawHttp> slow = new ArrayList<>();
      try {
        for (int i = 0; i < 300; i++) {
          RawHttp http = new RawHttp(fixture.port());
          slow.add(http);
          http.send(i % 2 == 0 ? "GET /qu" : POST_HEAD + "Content-Length: 100\r\n\r\n{");
        }
        long start = System.nanoTime();
        for (int i = 0; i < 100; i++) {
          assertThat(RawHttp.get(fixture.port(), "/query").status()).isEqualTo(200);
        }
        // Well below the time-out of the slow ones.
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(8));
      } finally {
        for (RawHttp http : slow) {
          http.close();
        }
      }
    }
  }

  @Test
  void aBodyThatIsExpectedIsAskedFor() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      String body = json(worker("e", 0, "tcp://h:1"));
      http.send(
          POST_HEAD + "Expect: 100-continue\r\nContent-Length: " + body.length() + "\r\n\r\n");
      assertThat(http.response().status()).isEqualTo(100);
      assertThat(http.send(body).response().status()).isEqualTo(200);
      http.send("HEAD /query HTTP/1.1\r\n\r\n" + QUERY);
      RawHttp.Response head = http.responseWithoutBody();
      assertThat(head.status()).isEqualTo(405);
      assertThat(head.headers())
          .containsEntry("allow", "GET")
          .containsEntry("content-length", "31");
      assertThat(http.response().json().get("0")).isNotNull();
    }
  }

  @Test
  void oldClientsAndThoseThatWantToCloseAreServed() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      try (RawHttp http = new RawHttp(fixture.port())) {
        assertThat(http.send("GET /query HTTP/1.0\r\n\r\n").response().status()).isEqualTo(200);
        assertThat(http.isClosedByServer()).isTrue();
      }
      try (RawHttp http = new RawHttp(fixture.port())) {
        http.send("GET /query HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assertThat(http.response().headers()).containsEntry("connection", "keep-alive");
        http.send("GET /query HTTP/1.1\r\nConnection: close\r\n\r\n");
        assertThat(http.response().headers()).containsEntry("connection", "close");
        assertThat(http.isClosedByServer()).isTrue();
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "GET,     /query?a=1,  200",
    "GET,     /%71uery,    200",
    "GET,     //query,     404",
    "GET,     /QUERY,      404",
    "GET,     /,           404",
    "GET,     /%zz,        404",
    "GET,     *,           404",
    "HEAD,    /nope,       404",
    "OPTIONS, /query,      405",
    "DELETE,  /register,   405",
    "GET,     /deregister, 405",
    "POST,    /health,     405",
  })
  void otherPathsAndMethods(String method, String path, int status) throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        RawHttp http = new RawHttp(fixture.port())) {
      http.send(RawHttp.request(method, path, null, null));
      RawHttp.Response response =
          method.equals("HEAD") ? http.responseWithoutBody() : http.response();
      assertThat(response.status()).isEqualTo(status);
    }
  }
}
