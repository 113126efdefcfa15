package dev.mooncake4j.examples.pictures;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Asks servers for their metrics once a second, as Prometheus does. For one thread. */
final class Scraper {
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private final HttpClient http;
  private final Map<String, URI> targets;

  /**
   * Asks nothing yet.
   *
   * @param targets where the metrics are, by the name that the {@code instance} label is to have
   */
  Scraper(HttpClient http, Map<String, URI> targets) {
    this.http = http;
    this.targets = targets;
  }

  /**
   * Scrapes until something is over; blocks as long.
   *
   * @throws IOException if a server does not answer with its metrics
   */
  List<Snapshot> scrapeUntil(CompletableFuture<?> over) throws IOException, InterruptedException {
    List<Snapshot> snapshots = new ArrayList<>();
    long began = System.nanoTime();
    boolean last;
    do {
      last = over.isDone();
      double seconds = (System.nanoTime() - began) / 1e9;
      List<Sample> samples = new ArrayList<>();
      for (Map.Entry<String, URI> target : targets.entrySet()) {
        samples.addAll(Sample.parse(get(target.getValue()), target.getKey()));
      }
      snapshots.add(new Snapshot(seconds, samples));
      if (!last) {
        long next = snapshots.size() * 1000L;
        Thread.sleep(Math.max(1, next - (System.nanoTime() - began) / 1_000_000));
      }
    } while (!last);
    return snapshots;
  }

  private String get(URI uri) throws IOException, InterruptedException {
    HttpResponse<String> response =
        http.send(
            HttpRequest.newBuilder(uri).timeout(PATIENCE).build(),
            HttpResponse.BodyHandlers.ofString());
    if (response.statusCode() != 200) {
      throw new IOException("no metrics: url=" + uri + " status=" + response.statusCode());
    }
    return response.body();
  }
}
