package dev.mooncake4j.examples.pictures;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** Sends prompts to a proxy, so many at a time, each with a trace of its own. */
final class Load {
  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final List<String> SUBJECTS =
      List.of("the sea", "a lighthouse", "the harbour", "an old map", "the north wind", "a ship");

  private final HttpClient http;
  private final URI front;
  private final int maxTokens;
  private final AtomicInteger sent = new AtomicInteger();

  Load(HttpClient http, URI front, int maxTokens) {
    this.http = http;
    this.front = front;
    this.maxTokens = maxTokens;
  }

  /**
   * Sends for a time, then waits for the last answers; blocks as long.
   *
   * @throws IOException if a request is refused or breaks off
   */
  List<RequestTimes> run(int parallel, Duration time) throws IOException, InterruptedException {
    long until = System.nanoTime() + time.toNanos();
    List<RequestTimes> all = new ArrayList<>();
    try (ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
      Callable<List<RequestTimes>> client =
          () -> {
            List<RequestTimes> times = new ArrayList<>();
            while (System.nanoTime() < until) {
              times.add(send());
            }
            return times;
          };
      List<Future<List<RequestTimes>>> clients = new ArrayList<>();
      for (int i = 0; i < parallel; i++) {
        clients.add(threads.submit(client));
      }
      for (Future<List<RequestTimes>> each : clients) {
        all.addAll(each.get());
      }
    } catch (ExecutionException e) {
      throw new IOException("a request failed: " + e.getCause(), e);
    }
    return all;
  }

  private RequestTimes send() throws IOException, InterruptedException {
    String traceId = UUID.randomUUID().toString().replace("-", "");
    String parent = String.format("%016x", ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE));
    HttpRequest request =
        HttpRequest.newBuilder(front.resolve("/v1/completions"))
            .timeout(PATIENCE)
            .header("Content-Type", "application/json")
            .header("traceparent", "00-" + traceId + "-" + parent + "-01")
            .POST(HttpRequest.BodyPublishers.ofString(body(sent.getAndIncrement())))
            .build();
    Instant began = Instant.now();
    HttpResponse<InputStream> response =
        http.send(request, HttpResponse.BodyHandlers.ofInputStream());
    Instant first = null;
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        if (response.statusCode() != 200 || line.contains("\"error\"")) {
          throw new IOException("status=" + response.statusCode() + ": " + line);
        }
        first = firstOf(first, line);
      }
    }
    Instant end = Instant.now();
    return new RequestTimes(traceId, began, first == null ? end : first, end);
  }

  private static @Nullable Instant firstOf(@Nullable Instant first, String line) {
    return first == null && line.startsWith("data:") ? Instant.now() : first;
  }

  /** Each begins differently and is of another length, so that none is found in a prefix cache. */
  private String body(int number) {
    ObjectNode body = JsonMapper.shared().createObjectNode();
    String subject = SUBJECTS.get(number % SUBJECTS.size());
    body.put(
        "prompt",
        "Letter "
            + number
            + ". Write about "
            + subject
            + " as it is seen on a clear morning in autumn"
            + (" and again, " + subject).repeat(number % 5)
            + ".");
    body.put("max_tokens", maxTokens);
    body.put("ignore_eos", true);
    body.put("stream", true);
    return body.toString();
  }
}
