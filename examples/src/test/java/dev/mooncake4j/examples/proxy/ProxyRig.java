package dev.mooncake4j.examples.proxy;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A proxy between servers in a test's hand, and its clients. */
final class ProxyRig implements AutoCloseable {
  static final String COMPLETIONS = "/v1/completions";
  static final String CHAT = "/v1/chat/completions";

  final FakeServer bootstrap;
  final List<FakeServer> prefillers = new ArrayList<>();
  final List<FakeServer> decoders = new ArrayList<>();
  final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  final ProxyServer proxy;

  /** How a rig differs from one prefiller of one rank and one decoder. */
  record Shape(
      int prefillers, int decoders, Duration timeout, Duration drain, List<String> engineIds) {
    static Shape plain() {
      return new Shape(1, 1, Duration.ofSeconds(30), Duration.ofSeconds(30), List.of("engine-0"));
    }
  }

  ProxyRig() throws Exception {
    this(Shape.plain());
  }

  ProxyRig(Shape shape) throws Exception {
    this(shape, FakeServer.bootstrap(shape.engineIds().toArray(String[]::new)));
  }

  ProxyRig(Shape shape, FakeServer bootstrap) throws Exception {
    this.bootstrap = bootstrap;
    for (int i = 0; i < shape.prefillers(); i++) {
      prefillers.add(new FakeServer());
    }
    for (int i = 0; i < shape.decoders(); i++) {
      decoders.add(new FakeServer());
    }
    proxy =
        ProxyServer.start(
            new ProxyOptions(
                "127.0.0.1",
                0,
                prefillers.stream()
                    .map(p -> new Prefiller(URI.create(p.url()), URI.create(bootstrap.url())))
                    .toList(),
                decoders.stream().map(d -> URI.create(d.url())).toList(),
                shape.timeout(),
                shape.drain(),
                Duration.ofMillis(50),
                100_000,
                null,
                null));
  }

  FakeServer prefiller() {
    return prefillers.getFirst();
  }

  FakeServer decoder() {
    return decoders.getFirst();
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + proxy.port() + path))
        .timeout(Duration.ofSeconds(30));
  }

  CompletableFuture<HttpResponse<String>> post(String path, String body) {
    return http.sendAsync(
        request(path).POST(HttpRequest.BodyPublishers.ofString(body)).build(),
        HttpResponse.BodyHandlers.ofString());
  }

  CompletableFuture<HttpResponse<String>> postAs(String bearer, String path, String body) {
    return postWith(List.of("Authorization", "Bearer " + bearer), path, body);
  }

  /** With headers, each a name and a value. */
  CompletableFuture<HttpResponse<String>> postWith(List<String> headers, String path, String body) {
    return http.sendAsync(
        request(path)
            .headers(headers.toArray(String[]::new))
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build(),
        HttpResponse.BodyHandlers.ofString());
  }

  CompletableFuture<HttpResponse<InputStream>> postStreaming(String path, String body) {
    return http.sendAsync(
        request(path).POST(HttpRequest.BodyPublishers.ofString(body)).build(),
        HttpResponse.BodyHandlers.ofInputStream());
  }

  HttpResponse<String> get(String path) throws IOException, InterruptedException {
    return http.send(request(path).GET().build(), HttpResponse.BodyHandlers.ofString());
  }

  /** A connection on which a test writes and reads bytes itself. */
  Socket connect() throws IOException {
    Socket socket = new Socket(InetAddress.getLoopbackAddress(), proxy.port());
    socket.setSoTimeout(20_000);
    return socket;
  }

  static byte[] rawPost(String path, String body) {
    return ("POST "
            + path
            + " HTTP/1.1\r\nhost: x\r\ncontent-length: "
            + body.length()
            + "\r\n\r\n"
            + body)
        .getBytes(StandardCharsets.UTF_8);
  }

  static <T> T get(CompletableFuture<T> future) throws Exception {
    return future.get(20, TimeUnit.SECONDS);
  }

  /** The error object of an answer. */
  static JsonNode error(HttpResponse<String> response) {
    return JsonMapper.shared().readTree(response.body()).get("error");
  }

  @Override
  public void close() throws IOException {
    proxy.close();
    http.shutdownNow();
    bootstrap.close();
    for (FakeServer prefiller : prefillers) {
      prefiller.close();
    }
    for (FakeServer decoder : decoders) {
      decoder.close();
    }
  }
}
