package dev.mooncake4j.examples.pictures;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The scraper against a server of a few lines. */
class ScraperTest {
  private final HttpServer server;
  private final HttpClient http = HttpClient.newHttpClient();

  ScraperTest() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext(
        "/metrics",
        exchange -> {
          byte[] body = "up 1\n".getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(200, body.length);
          exchange.getResponseBody().write(body);
          exchange.close();
        });
    server.start();
  }

  @AfterEach
  void stop() {
    http.close();
    server.stop(0);
  }

  @Test
  void eachServersFiguresHaveItsName() throws Exception {
    List<Snapshot> snapshots =
        new Scraper(http, Map.of("p", at("/metrics")))
            .scrapeUntil(CompletableFuture.completedFuture(null));
    assertThat(snapshots).hasSize(1);
    assertThat(snapshots.getFirst().samples())
        .containsExactly(new Sample("up", Map.of("instance", "p"), 1));
  }

  @Test
  void aServerWithoutMetricsIsAFault() {
    Scraper scraper = new Scraper(http, Map.of("p", at("/none")));
    assertThatThrownBy(() -> scraper.scrapeUntil(CompletableFuture.completedFuture(null)))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("status=404");
  }

  private URI at(String path) {
    return URI.create("http://127.0.0.1:" + server.getAddress().getPort() + path);
  }
}
