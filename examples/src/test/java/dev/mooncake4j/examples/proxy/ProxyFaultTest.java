package dev.mooncake4j.examples.proxy;

import static dev.mooncake4j.examples.proxy.ProxyRig.CHAT;
import static dev.mooncake4j.examples.proxy.ProxyRig.COMPLETIONS;
import static dev.mooncake4j.examples.proxy.ProxyRig.error;
import static dev.mooncake4j.examples.proxy.ProxyRig.get;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mooncake4j.examples.proxy.FakeServer.Call;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What goes wrong, and that the other side is told. */
class ProxyFaultTest {

  private static ProxyRig withTimeout(Duration timeout) throws Exception {
    return new ProxyRig(new ProxyRig.Shape(1, 1, timeout, Duration.ZERO, List.of("engine-0")));
  }

  @ParameterizedTest
  @CsvSource({"400,400", "404,404", "429,429", "500,502", "503,502"})
  void aPrefillThatFailsIsToldAndTheDecoderIsGivenUp(int status, int expected) throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      Call decode = rig.decoder().take();
      rig.prefiller()
          .take()
          .respond(status, "{\"error\":{\"message\":\"too long a prompt\",\"type\":\"x\"}}");
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(expected);
      assertThat(error(got).get("message").asString())
          .contains("prefill=" + rig.prefiller().url() + "#0")
          .contains("status=" + status)
          .endsWith("too long a prompt");
      assertThat(error(got).get("code").asInt()).isEqualTo(expected);
      assertThat(error(got).get("type").asString()).isNotEmpty();
      assertThat(error(got).has("param")).isTrue();
      decode.awaitGone();
    }
  }

  @Test
  void aPrefillerThatIsDownIsTold() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      rig.prefiller().close();
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(502);
      assertThat(error(got).get("message").asString())
          .startsWith("prefill=" + rig.prefiller().url() + "#0 cannot be reached");
    }
  }

  @Test
  void aPrefillerThatBreaksOffIsToldAndTheDecoderIsGivenUp() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      Call decode = rig.decoder().take();
      rig.prefiller().take().cut();
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(502);
      assertThat(error(got).get("message").asString()).contains("gave no answer");
      decode.awaitGone();
    }
  }

  @Test
  void aDecoderThatIsDownIsTold() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      rig.decoder().close();
      HttpResponse<String> got = get(rig.post(COMPLETIONS, "{}"));
      assertThat(got.statusCode()).isEqualTo(502);
      assertThat(error(got).get("message").asString())
          .startsWith("decode=" + rig.decoder().url() + " cannot be reached");
    }
  }

  @Test
  void aDecoderThatBreaksOffIsToldAndThePrefillIsGivenUp() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      Call prefill = rig.prefiller().take();
      rig.decoder().take().cut();
      assertThat(get(answer).statusCode()).isEqualTo(502);
      prefill.awaitGone();
    }
  }

  @Test
  void aDecodersOwnErrorIsPassedOnAtOnceAndThePrefillIsGivenUp() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(CHAT, "{\"stream\":true}");
      Call prefill = rig.prefiller().take();
      String body = "{\"error\":{\"message\":\"no such model\",\"code\":404}}";
      rig.decoder().take().respond(404, body);
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(404);
      assertThat(got.body()).isEqualTo(body);
      prefill.awaitGone();
    }
  }

  @Test
  void aDecoderThatDiesWithinItsStreamIsToldInTheStreamWhichDoesNotEndWell() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<InputStream>> answer =
          rig.postStreaming(CHAT, "{\"stream\":true}");
      rig.prefiller().take().respond(200, "{}");
      Call decode = rig.decoder().take();
      decode.begin();
      decode.chunk("data: 1\n\n");
      InputStream in = get(answer).body();
      assertThat(new String(in.readNBytes(9), StandardCharsets.UTF_8)).isEqualTo("data: 1\n\n");
      decode.cut();
      String event = ProxyTest.readUntil(in, "\n\n");
      assertThat(event).startsWith("data: {\"error\":{\"message\":\"decode=" + rig.decoder().url());
      assertThatThrownBy(in::read).isInstanceOf(IOException.class);
    }
  }

  @Test
  void aDecoderThatDoesNotSayWhichModelsThereAreIsTold() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      Call call;
      try (Socket socket = rig.connect()) {
        socket
            .getOutputStream()
            .write("GET /v1/models HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.UTF_8));
        call = rig.decoder().take();
      }
      call.awaitGone();
      rig.decoder().close();
      HttpResponse<String> got = rig.get("/v1/models");
      assertThat(got.statusCode()).isEqualTo(502);
      assertThat(error(got).get("message").asString())
          .startsWith("decode=" + rig.decoder().url() + " cannot be reached");
    }
  }

  @Test
  void aClientThatLeavesBeforeTheAnswerHasBothGivenUp() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      Call prefill;
      Call decode;
      try (Socket socket = rig.connect()) {
        socket.getOutputStream().write(ProxyRig.rawPost(COMPLETIONS, "{}"));
        prefill = rig.prefiller().take();
        decode = rig.decoder().take();
      }
      prefill.awaitGone();
      decode.awaitGone();
    }
  }

  @Test
  void aClientThatLeavesWithinAStreamHasTheDecoderGivenUp() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      Call decode;
      try (Socket socket = rig.connect()) {
        socket.getOutputStream().write(ProxyRig.rawPost(CHAT, "{\"stream\":true}"));
        rig.prefiller().take().respond(200, "{}");
        decode = rig.decoder().take();
        decode.begin();
        decode.chunk("data: 1\n\n");
        ProxyTest.readUntil(socket.getInputStream(), "data: 1\n\n");
      }
      decode.awaitGone();
    }
  }

  @Test
  void serversThatSayNothingAreGivenUpWhenTheTimeIsOver() throws Exception {
    try (ProxyRig rig = withTimeout(Duration.ofSeconds(1))) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      Call prefill = rig.prefiller().take();
      Call decode = rig.decoder().take();
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(504);
      assertThat(error(got).get("type").asString()).isEqualTo("GatewayTimeoutError");
      prefill.awaitGone();
      decode.awaitGone();
    }
  }

  @Test
  void aStreamThatStandsStillIsGivenUp() throws Exception {
    try (ProxyRig rig = withTimeout(Duration.ofSeconds(2))) {
      CompletableFuture<HttpResponse<InputStream>> answer =
          rig.postStreaming(CHAT, "{\"stream\":true}");
      rig.prefiller().take().respond(200, "{}");
      Call decode = rig.decoder().take();
      decode.begin();
      decode.chunk("data: 1\n\n");
      InputStream in = get(answer).body();
      assertThat(ProxyTest.readUntil(in, "\n\n")).isEqualTo("data: 1\n\n");
      assertThat(ProxyTest.readUntil(in, "\n\n")).contains("nothing moved for");
      decode.awaitGone();
    }
  }

  @Test
  void withoutABootstrapServerNothingIsServedUntilItIsThere() throws Exception {
    AtomicReference<String> engines = new AtomicReference<>("");
    FakeServer bootstrap =
        FakeServer.answering(
            call -> {
              if (engines.get().isEmpty()) {
                call.respond(500, "{}");
              } else {
                call.respond(200, engines.get());
              }
            });
    try (ProxyRig rig = new ProxyRig(ProxyRig.Shape.plain(), bootstrap)) {
      HttpResponse<String> got = get(rig.post(COMPLETIONS, "{}"));
      assertThat(got.statusCode()).isEqualTo(503);
      assertThat(error(got).get("message").asString())
          .startsWith("no prefiller can be used: prefill=" + rig.prefiller().url())
          .contains(bootstrap.url());
      assertThat(rig.get("/health").statusCode()).isEqualTo(503);
      assertThat(rig.decoder().isIdle()).isTrue();

      engines.set("{}");
      await().untilAsserted(() -> assertThat(rig.get("/health").body()).contains("no engine has"));
      engines.set(FakeServer.query("engine-0"));
      await().until(() -> rig.get("/health").statusCode() == 200);
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      rig.decoder().take().respond(200, "{}");
      assertThat(get(answer).statusCode()).isEqualTo(200);
      assertThat(rig.prefiller().take().params().get("do_remote_decode").asBoolean()).isTrue();

      engines.set(FakeServer.query("engine-0-again", "engine-1"));
      await().until(() -> rig.get("/health").body().contains("\"prefill_ranks\":2"));
      CompletableFuture<HttpResponse<String>> again = rig.post(COMPLETIONS, "{}");
      Call decode = rig.decoder().take();
      assertThat(decode.params().get("remote_engine_id").asString())
          .isIn("engine-0-again", "engine-1");
      decode.respond(200, "{}");
      assertThat(get(again).statusCode()).isEqualTo(200);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "{",
        "[]",
        "null",
        "{} {}",
        "{\"n\":2}",
        "{\"best_of\":3}",
        "{\"prompt\":[\"a\",\"b\"]}",
        "{\"prompt\":[[1,2],[3]]}",
      })
  void aBodyThatCannotBeServedIsTheClientsErrorAndNobodyIsAsked(String body) throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      HttpResponse<String> got = get(rig.post(COMPLETIONS, body));
      assertThat(got.statusCode()).isEqualTo(400);
      assertThat(error(got).get("type").asString()).isEqualTo("BadRequestError");
      assertThat(rig.prefiller().isIdle()).isTrue();
      assertThat(rig.decoder().isIdle()).isTrue();
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"{\"n\":1}", "{\"prompt\":[1,2,3]}", "{\"prompt\":[\"a\"]}", "{\"prompt\":[[1]]}"})
  void onePromptInAnyFormIsServed(String body) throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, body);
      rig.decoder().take().respond(200, "{}");
      assertThat(get(answer).statusCode()).isEqualTo(200);
    }
  }

  @Test
  void deepJsonIsRefused() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      String deep = "{\"a\":" + "[".repeat(20_000) + "]".repeat(20_000) + "}";
      assertThat(get(rig.post(CHAT, deep)).statusCode()).isEqualTo(400);
    }
  }

  @Test
  void aBodyThatIsTooLongIsRefusedAlsoWhereItIsSentToItsEnd() throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket socket = rig.connect()) {
      String body = "{\"prompt\":\"" + "x".repeat(2_000_000) + "\"}";
      socket.getOutputStream().write(ProxyRig.rawPost(COMPLETIONS, body));
      String all = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertThat(all)
          .startsWith("HTTP/1.1 413 ")
          .contains("RequestTooLargeError")
          .contains("100000");
      assertThat(rig.prefiller().isIdle()).isTrue();
    }
  }

  @ParameterizedTest
  @CsvSource({
    "100-continue,100001,413,RequestTooLargeError,bytes=100000",
    "a-reply,2,417,BadRequestError,expect=a-reply"
  })
  void aClientThatAsksFirstIsToldWhyNot(
      String expect, int length, int status, String type, String why) throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket socket = rig.connect()) {
      String head =
          "POST %s HTTP/1.1\r\nhost: x\r\nexpect: %s\r\ncontent-length: %d\r\n\r\n"
              .formatted(COMPLETIONS, expect, length);
      socket.getOutputStream().write(head.getBytes(StandardCharsets.UTF_8));
      String all = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertThat(all)
          .startsWith("HTTP/1.1 " + status + " ")
          .containsIgnoringCase("connection: close")
          .contains(type)
          .contains(why);
    }
  }

  @Test
  void aClientThatAsksFirstMaySendItsBody() throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket socket = rig.connect()) {
      String head =
          "POST %s HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
              .formatted(COMPLETIONS);
      socket.getOutputStream().write(head.getBytes(StandardCharsets.UTF_8));
      ProxyTest.readUntil(socket.getInputStream(), "HTTP/1.1 100 Continue\r\n\r\n");
      socket.getOutputStream().write("{}".getBytes(StandardCharsets.UTF_8));
      rig.decoder().take().respond(200, "{\"mine\":1}");
      ProxyTest.readUntil(socket.getInputStream(), "{\"mine\":1}");
    }
  }

  @Test
  void otherPathsAndMethodsAreTold() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      assertThat(rig.get("/v1/embeddings").statusCode()).isEqualTo(404);
      assertThat(get(rig.post("/v1/models", "{}")).statusCode()).isEqualTo(405);
      assertThat(error(rig.get(COMPLETIONS)).get("type").asString())
          .isEqualTo("MethodNotAllowedError");
      assertThat(rig.get("/health").statusCode()).isEqualTo(200);
      try (Socket socket = rig.connect()) {
        socket.getOutputStream().write("nonsense\r\n\r\n".getBytes(StandardCharsets.UTF_8));
        String all = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(all).startsWith("HTTP/1.1 400 ");
      }
    }
  }
}
