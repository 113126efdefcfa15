package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;

/** What vLLM's bootstrap server was seen to answer, ours answers too: the status and the JSON. */
class WireCapturesTest {

  /** The port of the worker in the captures; here a port that is open, for that worker is alive. */
  private static final String CAPTURED_PORT = "37367";

  private BootstrapServer server;
  private ServerSocket worker;

  @BeforeEach
  void start() throws IOException {
    server = BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"));
    worker = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  }

  @AfterEach
  void stop() throws IOException {
    server.close();
    worker.close();
  }

  private String here(String captured) {
    return captured.replace(CAPTURED_PORT, Integer.toString(worker.getLocalPort()));
  }

  @Test
  void theBytesThatVllmSendsAreAnsweredAsItsServerDoes() throws IOException {
    for (String name : List.of("http_register.json", "http_query.json")) {
      JsonNode capture = Resources.capture(name);
      // The port of the capture has five digits, and its length is in a header.
      String request = capture.get("request_raw").stringValue();
      String body = here(request.substring(request.indexOf("\r\n\r\n") + 4));
      String head = request.substring(0, request.indexOf("\r\n\r\n") + 4);
      head = head.replaceAll("Content-Length: \\d+", "Content-Length: " + body.length());
      String answer = capture.get("response_raw").stringValue();
      try (RawHttp http = new RawHttp(server.port())) {
        RawHttp.Response response = http.send(head + body).response();
        assertThat(response.status()).isEqualTo(200);
        assertThat(response.headers()).containsEntry("content-type", "application/json");
        assertThat(response.json())
            .isEqualTo(
                Json.MAPPER.readTree(here(answer.substring(answer.indexOf("\r\n\r\n") + 4))));
      }
    }
  }

  @Test
  void theRecordedConversation() throws IOException {
    server.register(
        new RegisterRequest("engine-P", 0, 0, 0, here("tcp://127.0.0.1:" + CAPTURED_PORT)));
    for (Map.Entry<String, JsonNode> entry : Resources.capture("http_variants.json").properties()) {
      JsonNode request = entry.getValue().get("request");
      JsonNode body = request.get("body");
      JsonNode contentType = request.get("headers").get("content-type");
      RawHttp.Response response =
          RawHttp.ask(
              server.port(),
              request.get("method").stringValue(),
              request.get("path").stringValue(),
              contentType == null ? null : contentType.stringValue(),
              body.isNull() ? null : here(body.stringValue()).getBytes(StandardCharsets.UTF_8));
      assertThat(response.status())
          .as(entry.getKey())
          .isEqualTo(entry.getValue().get("status").intValue());
      assertThat(response.json())
          .as(entry.getKey())
          .isEqualTo(Json.MAPPER.readTree(here(entry.getValue().get("body").stringValue())));
      for (JsonNode header : entry.getValue().get("headers")) {
        String name = header.get(0).stringValue();
        if (name.equals("allow") || name.equals("content-type")) {
          assertThat(response.headers())
              .as(entry.getKey())
              .containsEntry(name, header.get(1).stringValue());
        }
      }
    }
  }

  /**
   * Answers of FastAPI 0.165 with pydantic 2.14 to the same model, for what the captures leave out.
   */
  @TestFactory
  List<DynamicTest> whatFastApiSaysToOtherBodies() {
    List<DynamicTest> tests = new ArrayList<>();
    for (JsonNode recorded : Resources.capture("http_validation_fastapi.json")) {
      String name = recorded.get("name").stringValue();
      tests.add(dynamicTest(name, () -> check(name, recorded)));
    }
    return tests;
  }

  private static void check(String name, JsonNode recorded) throws IOException {
    try (BootstrapServer fresh =
        BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"))) {
      JsonNode contentType = recorded.get("content_type");
      byte[] body =
          recorded.has("body")
              ? recorded.get("body").stringValue().getBytes(StandardCharsets.UTF_8)
              : Base64.getDecoder().decode(recorded.get("body_base64").stringValue());
      RawHttp.Response response =
          RawHttp.ask(
              fresh.port(),
              "POST",
              "/register",
              contentType.isNull() ? null : contentType.stringValue(),
              body);
      JsonNode answer = recorded.get("answer");
      assertThat(response.status()).isEqualTo(recorded.get("status").intValue());
      if (response.status() == 200) {
        assertThat(fresh.query().engines())
            .containsOnlyKeys(answer.get("rank").intValue())
            .containsValue(fresh.query().engine("e"));
      } else if (name.startsWith("malformed ")) {
        // Where and what exactly is left to the parser.
        JsonNode problem = response.json().get("detail").get(0);
        assertThat(problem.get("type")).isEqualTo(answer.get("detail").get(0).get("type"));
        assertThat(problem.get("msg")).isEqualTo(answer.get("detail").get(0).get("msg"));
        assertThat(problem.get("loc").get(0).stringValue()).isEqualTo("body");
        assertThat(problem.get("ctx").get("error").stringValue()).isNotBlank();
      } else {
        assertThat(response.json()).isEqualTo(answer);
      }
    }
  }
}
