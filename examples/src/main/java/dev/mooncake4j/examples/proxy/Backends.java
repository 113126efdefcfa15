package dev.mooncake4j.examples.proxy;

import java.io.InputStream;
import java.net.ConnectException;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The servers, over HTTP/1.1. A request that is cancelled closes its connection. */
final class Backends implements AutoCloseable {
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);

  private final Duration timeout;
  private final ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor();
  private final HttpClient http;

  /** A client that waits this long for an answer to begin. */
  Backends(Duration timeout) {
    this.timeout = timeout;
    this.http =
        HttpClient.newBuilder()
            // The default offers h2c with every request, at which some servers lose the body.
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            // The servers are the cluster's own.
            .proxy(ProxySelector.of(null))
            .connectTimeout(timeout.compareTo(CONNECT_TIMEOUT) < 0 ? timeout : CONNECT_TIMEOUT)
            .executor(executor)
            .build();
  }

  /** Posts JSON; the answer's body is read while it comes. */
  CompletableFuture<HttpResponse<InputStream>> post(
      URI server, String path, byte[] body, Map<String, String> headers) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(server + path))
            .timeout(timeout)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofByteArray(body));
    headers.forEach(request::header);
    return http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofInputStream());
  }

  /** Gets; the answer's body is read while it comes. */
  CompletableFuture<HttpResponse<InputStream>> get(
      URI server, String path, Map<String, String> headers) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(server + path)).timeout(timeout).GET();
    headers.forEach(request::header);
    return http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofInputStream());
  }

  /** Why a server gave no answer, for the client: as the gateway that we are. */
  static ProxyFailure failure(String who, Throwable thrown) {
    Throwable cause =
        thrown instanceof CompletionException && thrown.getCause() != null
            ? thrown.getCause()
            : thrown;
    if (cause instanceof ConnectException || cause.getCause() instanceof ConnectException) {
      return new ProxyFailure(502, who + " cannot be reached" + detail(cause));
    }
    if (cause instanceof HttpTimeoutException) {
      return new ProxyFailure(504, who + " did not answer in time" + detail(cause));
    }
    return new ProxyFailure(502, who + " gave no answer" + detail(cause));
  }

  private static String detail(Throwable cause) {
    String message = cause.getMessage();
    return message == null || message.isBlank() ? "" : ": " + message;
  }

  @Override
  public void close() {
    http.shutdownNow();
    executor.shutdownNow();
  }
}
