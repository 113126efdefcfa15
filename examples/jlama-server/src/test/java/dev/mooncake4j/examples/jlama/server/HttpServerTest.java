package dev.mooncake4j.examples.jlama.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvRequest;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

class HttpServerTest {
  private final ToyModel model = new ToyModel();
  private final ScriptedLink link = new ScriptedLink();
  private final Engine engine =
      new Engine(
          model,
          new KvPool(model.layers(), model.rowBytes(), 16, Arena.ofAuto()),
          2,
          EngineObserver.NONE);
  private final HttpServer server = start();
  private final HttpClient client =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  private static HttpServer start() {
    try {
      return new HttpServer("127.0.0.1", 0);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @BeforeEach
  void serve() {
    link.wakes(engine);
    engine.start(link);
    server.serve(new CompletionService("toy", model, engine, () -> "meter 1\n", false));
  }

  @AfterEach
  void stop() {
    client.close();
    server.close();
    engine.close();
  }

  private HttpRequest.Builder to(String path) {
    return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + path))
        .timeout(Duration.ofSeconds(20));
  }

  private HttpResponse<String> post(String json) throws Exception {
    return client.send(
        to("/v1/completions")
            .header("X-Request-Id", "mine")
            .POST(HttpRequest.BodyPublishers.ofString(json.replace('\'', '"')))
            .build(),
        HttpResponse.BodyHandlers.ofString());
  }

  private HttpResponse<String> get(String path) throws Exception {
    return client.send(to(path).build(), HttpResponse.BodyHandlers.ofString());
  }

  private int head(String path) throws Exception {
    return client
        .send(to(path).HEAD().build(), HttpResponse.BodyHandlers.discarding())
        .statusCode();
  }

  private static String text(int... answer) {
    return Arrays.stream(answer).mapToObj(Integer::toString).collect(Collectors.joining());
  }

  @Test
  void anAnswerInOnePiece() throws Exception {
    HttpResponse<String> response =
        post(
            "{'model': 'toy', 'prompt': 'abc', 'max_tokens': 4, 'ignore_eos': true,"
                + " 'return_token_ids': true}");
    assertThat(response.statusCode()).isEqualTo(200);
    assertThat(response.headers().firstValue("X-Request-Id").orElse("")).startsWith("cmpl-mine-");
    JsonNode body = JsonMapper.shared().readTree(response.body());
    int[] answer = ToyModel.answer(new int[] {'a', 'b', 'c'}, 4);
    JsonNode choice = body.get("choices").get(0);
    assertThat(choice.get("text").asString()).isEqualTo(text(answer));
    assertThat(choice.get("finish_reason").asString()).isEqualTo("length");
    assertThat(choice.get("token_ids").valueStream().mapToInt(JsonNode::asInt).toArray())
        .isEqualTo(answer);
    assertThat(body.get("usage").get("prompt_tokens").asInt()).isEqualTo(3);
    assertThat(body.get("usage").get("completion_tokens").asInt()).isEqualTo(4);
    assertThat(body.get("kv_transfer_params").isNull()).isTrue();
  }

  @Test
  void anAnswerAsAStream() throws Exception {
    HttpResponse<String> response =
        post(
            "{'prompt': 'abc', 'max_tokens': 3, 'ignore_eos': true, 'stream': true,"
                + " 'stream_options': {'include_usage': true}}");
    assertThat(response.headers().firstValue("content-type").orElse(""))
        .startsWith("text/event-stream");
    List<String> events = List.of(response.body().split("\n\n"));
    assertThat(events).hasSize(5).allMatch(event -> event.startsWith("data: "));
    assertThat(events.get(4)).isEqualTo("data: [DONE]");
    StringBuilder text = new StringBuilder();
    for (String event : events.subList(0, 3)) {
      JsonNode choice = JsonMapper.shared().readTree(event.substring(6)).get("choices").get(0);
      text.append(choice.get("text").asString());
    }
    assertThat(text.toString()).isEqualTo(text(ToyModel.answer(new int[] {'a', 'b', 'c'}, 3)));
    assertThat(events.get(2)).contains("\"finish_reason\":\"length\"");
    assertThat(events.get(3)).contains("\"completion_tokens\":3").contains("\"choices\":[]");
  }

  @Test
  void severalRequestsOnOneConnection() throws Exception {
    for (int i = 0; i < 3; i++) {
      assertThat(post("{'prompt': 'abc'}").statusCode()).isEqualTo(200);
      assertThat(post("{'prompt': 5}").statusCode()).isEqualTo(400);
      assertThat(post("{'prompt': [1, 65536]}").body()).contains("token=65536");
      assertThat(post("{'prompt': [-1]}").statusCode()).isEqualTo(400);
      assertThat(post("{'prompt': 'abc', 'stream': true}").statusCode()).isEqualTo(200);
    }
  }

  @Test
  void theOtherPaths() throws Exception {
    assertThat(get("/v1/models").body()).contains("\"id\":\"toy\"");
    assertThat(get("/metrics").body()).isEqualTo("meter 1\n");
    assertThat(get("/health").statusCode()).isEqualTo(200);
    assertThat(get("/v1/completions").statusCode()).isEqualTo(405);
    assertThat(get("/other").statusCode()).isEqualTo(404);
    assertThat(head("/health")).isEqualTo(200);
    engine.close();
    assertThat(get("/health").statusCode()).isEqualTo(503);
    assertThat(head("/health")).isEqualTo(503);
  }

  @Test
  void whatIsNotServedIsRefusedWithItsReason() throws Exception {
    assertThat(post("{'prompt': 'a', 'model': 'other'}").statusCode()).isEqualTo(404);
    assertThat(post("{'prompt': 'a', 'max_tokens': 300}").body()).contains("--blocks");
    assertThat(post("{'prompt': 'a', 'leave_kv_unfetched': true}").statusCode()).isEqualTo(400);
    assertThat(post("no json").body()).contains("not JSON");
    HttpResponse<String> tooLong = post("{'prompt': '" + "a".repeat(1 << 21) + "'}");
    assertThat(tooLong.statusCode()).isEqualTo(413);
    assertThat(tooLong.body()).contains("bytes=1048576").contains("\"code\":413");
  }

  @Test
  void aBodyThatIsTooLongIsRefusedAlsoWhereItIsSentToItsEnd() throws Exception {
    try (Socket socket = connect()) {
      sendHead(socket, "");
      socket.getOutputStream().write(new byte[1 << 23]);
      assertThat(all(socket)).startsWith("HTTP/1.1 413 ").contains("bytes=1048576");
    }
  }

  @Test
  void aClientThatAsksFirstIsToldWhyNot() throws Exception {
    try (Socket socket = connect()) {
      sendHead(socket, "Expect: 100-continue\r\n");
      assertThat(all(socket)).startsWith("HTTP/1.1 413 ").contains("bytes=1048576");
    }
  }

  @Test
  void aBodyThatIsTooLongBehindARequestIsNoAnswerToThat() throws Exception {
    try (Socket socket = connect()) {
      String body = "{\"prompt\": \"abc\", \"max_tokens\": 200, \"ignore_eos\": true}";
      String both =
          "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
              + body.length()
              + "\r\n\r\n"
              + body
              + "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n";
      socket.getOutputStream().write(both.getBytes(StandardCharsets.US_ASCII));
      assertThat(all(socket)).doesNotContain("413");
    }
  }

  private Socket connect() throws IOException {
    Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.port());
    socket.setSoTimeout(20_000);
    return socket;
  }

  private static void sendHead(Socket socket, String header) throws IOException {
    String head =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + header + "Content-Length: 8388608\r\n\r\n";
    socket.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
  }

  private static String all(Socket socket) throws IOException {
    return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "'prompt': 'a', 'temperature': 1",
        "'prompt': 'a', 'max_tokens': 300",
        "'prompt': 'a', 'model': 'other'",
        "'prompt': 5",
        "'prompt': [-1]"
      })
  void theOtherSideOfOneThatIsRefusedKeepsNothingForIt(String wrong) throws Exception {
    String transfer = ", 'kv_transfer_params': {'transfer_id': 'x', 'remote_engine_id': 'p',";
    // One that cannot be read is not its business.
    post("{" + wrong + ", 'kv_transfer_params': 5}");
    post("{" + wrong + transfer + " 'do_remote_decode': true}}");
    KvRequest prefill = link.nextArrival();
    assertThat(prefill.transferParams().transferId()).isEqualTo("x");
    assertThat(prefill.transferParams().doRemoteDecode()).isTrue();
    assertThat(link.nextEnd())
        .isEqualTo(
            new ScriptedLink.End(prefill.requestId(), BlockIds.none(), FinishReason.ABORTED));
    assertThat(post("{" + wrong + transfer + " 'do_remote_prefill': true}}").statusCode())
        .isGreaterThanOrEqualTo(400);
    KvRequest arrived = link.nextArrival();
    assertThat(arrived.transferParams().transferId()).isEqualTo("x");
    assertThat(arrived.transferParams().doRemotePrefill()).isTrue();
    assertThat(link.nextEnd())
        .isEqualTo(
            new ScriptedLink.End(arrived.requestId(), BlockIds.none(), FinishReason.ABORTED));
  }

  @Test
  void untilTheModelIsThereNothingIsServed() throws Exception {
    try (HttpServer early = new HttpServer("127.0.0.1", 0)) {
      URI health = URI.create("http://127.0.0.1:" + early.port() + "/health");
      assertThat(
              client
                  .send(
                      HttpRequest.newBuilder(health).build(), HttpResponse.BodyHandlers.ofString())
                  .statusCode())
          .isEqualTo(503);
      assertThatThrownBy(() -> new HttpServer("127.0.0.1", early.port()))
          .isInstanceOf(IOException.class)
          .hasMessageContaining("port=" + early.port());
    }
  }

  @Test
  void aClientThatGoesAwayGivesItsRequestUp() throws Exception {
    String body =
        "{\"prompt\": \"abc\", \"max_tokens\": 4, \"kv_transfer_params\": {\"do_remote_prefill\":"
            + " true, \"transfer_id\": \"x\"}}";
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.port())) {
      socket
          .getOutputStream()
          .write(
              ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                      + body.length()
                      + "\r\n\r\n"
                      + body)
                  .getBytes(StandardCharsets.US_ASCII));
      // It waits for its blocks now.
      link.nextPull();
    }
    assertThat(link.nextEnd().reason()).isEqualTo(FinishReason.ABORTED);
  }
}
