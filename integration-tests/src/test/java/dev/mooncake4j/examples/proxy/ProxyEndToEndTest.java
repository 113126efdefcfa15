package dev.mooncake4j.examples.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mooncake4j.connector.KvRole;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Requests through the proxy move real blocks, on the real engine, and the decoder finds them. */
class ProxyEndToEndTest {

  @Test
  void whatTheDecoderSaysIsWhatThePrefillerWrote() throws Exception {
    try (ToyServer prefiller = new ToyServer(KvRole.PRODUCER, 5, 0, 3, 1);
        ToyServer decoder = new ToyServer(KvRole.CONSUMER, 2, 4, 6, 7);
        ProxyServer proxy =
            ProxyServer.start(
                new ProxyOptions(
                    "127.0.0.1",
                    0,
                    List.of(new Prefiller(prefiller.url(), prefiller.bootstrap())),
                    List.of(decoder.url()),
                    Duration.ofSeconds(60),
                    Duration.ofSeconds(10),
                    ProxyOptions.REFRESH,
                    ProxyOptions.MAX_BODY_BYTES,
                    null,
                    null));
        HttpClient client = HttpClient.newHttpClient()) {
      int bytes = 4 * 2 * ToyServer.BLOCK_BYTES;
      String[] prompts = {"apple", "banana", "cherry"};
      for (String prompt : prompts) {
        boolean stream = prompt.equals("banana");
        HttpResponse<String> answer =
            client.send(
                HttpRequest.newBuilder(
                        URI.create("http://127.0.0.1:" + proxy.port() + "/v1/completions"))
                    .timeout(Duration.ofSeconds(60))
                    .POST(
                        HttpRequest.BodyPublishers.ofString(
                            "{\"prompt\":\"" + prompt + "\",\"stream\":" + stream + "}"))
                    .build(),
                HttpResponse.BodyHandlers.ofString());
        assertThat(decoder.failed).isEmpty();
        assertThat(answer.statusCode()).isEqualTo(200);
        assertThat(answer.body())
            .contains("\"text\":\"" + prompt.charAt(0) + " bytes=" + bytes + " others=0\"")
            .startsWith(stream ? "data: " : "{\"choices\"");
      }
      await().atMost(Duration.ofSeconds(20)).until(() -> prefiller.sent.size() == prompts.length);
      assertThat(prefiller.sent).allMatch(end -> end.endsWith("=SERVED"));
    }
  }
}
