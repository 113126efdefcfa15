package dev.mooncake4j.examples.proxy;

import static dev.mooncake4j.examples.proxy.ProxyRig.CHAT;
import static dev.mooncake4j.examples.proxy.ProxyRig.COMPLETIONS;
import static dev.mooncake4j.examples.proxy.ProxyRig.get;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.examples.proxy.FakeServer.Call;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** What servers and clients see when all goes well. */
class ProxyTest {

  @ParameterizedTest
  @ValueSource(strings = {COMPLETIONS, CHAT})
  void bothServersAreAskedAtOnceAndTheDecodersAnswerIsTheClients(String path) throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer =
          rig.postAs(
              "secret",
              path,
              "{\"model\":\"m\",\"prompt\":\"hi\",\"max_tokens\":7,\"temperature\":0.10,"
                  + "\"seed\":12345678901234567890,\"kv_transfer_params\":{\"mine\":1}}");
      Call prefill = rig.prefiller().take();
      Call decode = rig.decoder().take();

      for (Call call : List.of(prefill, decode)) {
        assertThat(call.line).isEqualTo("POST " + path + " HTTP/1.1");
        assertThat(call.headers)
            .containsEntry("authorization", "Bearer secret")
            .containsEntry("content-type", "application/json")
            .doesNotContainKey("upgrade");
        assertThat(call.json().get("prompt").asString()).isEqualTo("hi");
        assertThat(call.body).contains("0.10").contains("12345678901234567890");
      }
      String id = prefill.headers.get("x-request-id");
      assertThat(id).hasSize(36);
      assertThat(prefill.headers).containsEntry("x-data-parallel-rank", "0");
      assertThat(prefill.json().get("max_tokens").asInt()).isEqualTo(1);
      assertThat(prefill.json().get("stream").asBoolean()).isFalse();
      assertThat(prefill.json().has("max_completion_tokens")).isFalse();
      assertThat(prefill.params().toString())
          .isEqualTo(
              "{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"transfer_id\":\"xfer-"
                  + id
                  + "\"}");
      assertThat(decode.headers)
          .containsEntry("x-request-id", id)
          .doesNotContainKey("x-data-parallel-rank");
      assertThat(decode.json().get("max_tokens").asInt()).isEqualTo(7);
      assertThat(decode.json().has("stream")).isFalse();
      JsonNode params = decode.params();
      assertThat(params.get("do_remote_prefill").asBoolean()).isTrue();
      assertThat(params.get("do_remote_decode").asBoolean()).isFalse();
      assertThat(params.get("transfer_id").asString()).isEqualTo("xfer-" + id);
      assertThat(params.get("remote_engine_id").asString()).isEqualTo("engine-0");
      assertThat(params.get("remote_bootstrap_addr").asString()).isEqualTo(rig.bootstrap.url());
      assertThat(params.size()).isEqualTo(5);

      prefill.respond(200, "{\"choices\":[]}");
      decode.respond(200, "{\"choices\":[{\"text\":\"hello\"}]}");
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(200);
      assertThat(got.body()).isEqualTo("{\"choices\":[{\"text\":\"hello\"}]}");
      assertThat(got.headers().firstValue("content-type")).contains("application/json");
      assertThat(got.headers().firstValue("x-request-id")).contains(id);
    }
  }

  @Test
  void thePrefillIsBoundToOneTokenWhateverTheClientsBounds() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer =
          rig.post(
              CHAT,
              "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                  + "\"max_completion_tokens\":50,\"min_tokens\":5}");
      JsonNode prefill = rig.prefiller().take().json();
      Call decode = rig.decoder().take();
      assertThat(prefill.get("max_tokens").asInt()).isEqualTo(1);
      assertThat(prefill.get("max_completion_tokens").asInt()).isEqualTo(1);
      assertThat(prefill.get("min_tokens").asInt()).isEqualTo(1);
      assertThat(prefill.get("stream").asBoolean()).isFalse();
      assertThat(prefill.has("stream_options")).isFalse();
      assertThat(decode.json().has("stream_options")).isTrue();
      assertThat(decode.json().get("stream").asBoolean()).isTrue();
      assertThat(decode.json().get("min_tokens").asInt()).isEqualTo(5);
      decode.respond(200, "{}");
      assertThat(get(answer).statusCode()).isEqualTo(200);
    }
  }

  @Test
  void theClientsTraceGoesToBothServersAsHeaderAndParameter() throws Exception {
    String traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<String>> answer =
          rig.postWith(
              List.of("traceparent", traceparent, "tracestate", "a=1", "tracestate", "b=2"),
              COMPLETIONS,
              "{}");
      Call prefill = rig.prefiller().take();
      Call decode = rig.decoder().take();
      for (Call call : List.of(prefill, decode)) {
        assertThat(call.headers)
            .containsEntry("traceparent", traceparent)
            .containsEntry("tracestate", "a=1,b=2");
        assertThat(call.params().get("traceparent").asString()).isEqualTo(traceparent);
      }
      prefill.respond(200, "{}");
      decode.respond(200, "{}");
      assertThat(get(answer).statusCode()).isEqualTo(200);
    }
  }

  @Test
  void aTraceThatIsNoneIsNotPassedOn() throws Exception {
    String traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    try (ProxyRig rig = new ProxyRig()) {
      for (List<String> headers :
          List.of(
              List.of("traceparent", traceparent + "0", "tracestate", "a=1"),
              List.of("traceparent", traceparent, "traceparent", traceparent),
              List.of("tracestate", "a=1"))) {
        CompletableFuture<HttpResponse<String>> answer = rig.postWith(headers, COMPLETIONS, "{}");
        Call prefill = rig.prefiller().take();
        Call decode = rig.decoder().take();
        for (Call call : List.of(prefill, decode)) {
          assertThat(call.headers).doesNotContainKeys("traceparent", "tracestate");
          assertThat(call.params().has("traceparent")).isFalse();
        }
        prefill.respond(200, "{}");
        decode.respond(200, "{}");
        assertThat(get(answer).statusCode()).isEqualTo(200);
      }
    }
  }

  @Test
  void aStreamsPiecesArriveOneByOneBeforeItsEnd() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<InputStream>> answer =
          rig.postStreaming(CHAT, "{\"stream\":true}");
      Call decode = rig.decoder().take();
      decode.begin();
      rig.prefiller().take().respond(200, "{}");
      HttpResponse<InputStream> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(200);
      assertThat(got.headers().firstValue("content-type"))
          .contains("text/event-stream; charset=utf-8");
      InputStream in = got.body();
      for (int i = 0; i < 50; i++) {
        String event = "data: {\"n\":" + i + "}\n\n";
        decode.chunk(event);
        assertThat(new String(in.readNBytes(event.length()), StandardCharsets.UTF_8))
            .isEqualTo(event);
      }
      decode.chunk("data: [DONE]\n\n");
      decode.end();
      assertThat(new String(in.readAllBytes(), StandardCharsets.UTF_8))
          .isEqualTo("data: [DONE]\n\n");
    }
  }

  @Test
  void nothingOfAStreamIsPassedOnBeforeThePrefillHasSucceeded() throws Exception {
    try (ProxyRig rig = new ProxyRig()) {
      CompletableFuture<HttpResponse<InputStream>> answer =
          rig.postStreaming(CHAT, "{\"stream\":true}");
      Call decode = rig.decoder().take();
      decode.begin();
      decode.chunk("data: early\n\n");
      Call prefill = rig.prefiller().take();
      assertThat(answer).isNotDone();
      prefill.respond(500, "{}");
      assertThat(get(answer).statusCode()).isEqualTo(502);
      decode.awaitGone();
    }
  }

  @Test
  void prefillersRanksAndDecodersTakeTurns() throws Exception {
    ProxyRig.Shape shape =
        new ProxyRig.Shape(
            2, 3, Duration.ofSeconds(30), Duration.ZERO, List.of("engine-0", "engine-1"));
    try (ProxyRig rig = new ProxyRig(shape)) {
      Set<String> pairs = new HashSet<>();
      List<String> prefilled = new ArrayList<>();
      for (int i = 0; i < 12; i++) {
        CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
        Call prefill = rig.prefillers.get(i / 2 % 2).take();
        Call decode = rig.decoders.get(i % 3).take();
        String rank = prefill.headers.get("x-data-parallel-rank");
        assertThat(rank).isEqualTo(Integer.toString(i % 2));
        assertThat(decode.params().get("remote_engine_id").asString()).isEqualTo("engine-" + rank);
        assertThat(decode.params().get("transfer_id"))
            .isEqualTo(prefill.params().get("transfer_id"));
        prefilled.add(prefill.params().get("transfer_id").asString());
        pairs.add(i % 4 + "-" + i % 3);
        prefill.respond(200, "{}");
        decode.respond(200, "{}");
        assertThat(get(answer).statusCode()).isEqualTo(200);
      }
      assertThat(prefilled).doesNotHaveDuplicates();
      assertThat(pairs).as("every rank with every decoder").hasSize(12);
    }
  }

  @Test
  void requestsSentBeforeTheirAnswersAreAnsweredInOrder() throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket socket = rig.connect()) {
      socket.getOutputStream().write(ProxyRig.rawPost(COMPLETIONS, "{\"prompt\":\"a\"}"));
      socket.getOutputStream().write(ProxyRig.rawPost(COMPLETIONS, "{\"prompt\":\"b\"}"));
      for (String prompt : List.of("a", "b")) {
        Call decode = rig.decoder().take();
        assertThat(decode.json().get("prompt").asString()).isEqualTo(prompt);
        assertThat(rig.decoder().isIdle()).isTrue();
        rig.prefiller().take().respond(200, "{}");
        decode.respond(200, "{\"of\":\"" + prompt + "\"}");
        String head = readUntil(socket.getInputStream(), "\r\n\r\n{\"of\":\"" + prompt + "\"}");
        assertThat(head).startsWith("HTTP/1.1 200 ");
      }
    }
  }

  @Test
  void aDecoderIsAskedWhichModelsThereAre() throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket socket = rig.connect()) {
      String question = "GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer b\r\n\r\n";
      String models = "{\"object\":\"list\",\"data\":[{\"id\":\"m\"}]}";
      // Twice on one connection: it is free for the next request after an answer.
      for (int i = 0; i < 2; i++) {
        socket.getOutputStream().write(question.getBytes(StandardCharsets.UTF_8));
        Call call = rig.decoder().take();
        assertThat(call.line).isEqualTo("GET /v1/models HTTP/1.1");
        assertThat(call.headers).containsEntry("authorization", "Bearer b");
        call.respond(200, models);
        assertThat(readUntil(socket.getInputStream(), models))
            .startsWith("HTTP/1.1 200 ")
            .containsIgnoringCase("content-type: application/json");
      }
      assertThat(rig.prefiller().isIdle()).isTrue();
    }
  }

  @Test
  void aClientThatKnowsNoChunksReadsToTheConnectionsEnd() throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket socket = rig.connect()) {
      socket
          .getOutputStream()
          .write(
              ("POST " + COMPLETIONS + " HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}")
                  .getBytes(StandardCharsets.UTF_8));
      rig.prefiller().take().respond(200, "{}");
      Call decode = rig.decoder().take();
      decode.begin();
      decode.chunk("data: 1\n\n");
      decode.end();
      String all = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertThat(all).endsWith("\r\n\r\ndata: 1\n\n").doesNotContain("chunked");
    }
  }

  static String readUntil(InputStream in, String end) throws IOException {
    StringBuilder text = new StringBuilder();
    while (text.indexOf(end) < 0) {
      int b = in.read();
      if (b < 0) {
        throw new AssertionError("the connection ended after: " + text);
      }
      text.append((char) b);
    }
    return text.toString();
  }
}
