package dev.mooncake4j.examples.jlama.demo;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** A client of {@code /v1/completions} and {@code /metrics}. Thread-safe. */
public final class CompletionClient implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofMinutes(5);

  private final HttpClient http =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  /**
   * What came of a request.
   *
   * @param tokens of the answer
   * @param promptTokens number of tokens of the prompt
   * @param millisToFirst from sending it to its first token
   */
  public record Outcome(List<Integer> tokens, String text, int promptTokens, long millisToFirst) {}

  /**
   * Sends a request, to which stream and token ids are added, and reads the stream to its end.
   *
   * @param onText given each piece of text as it comes
   * @throws IOException if it is refused or breaks off
   */
  public Outcome complete(URI server, ObjectNode request, Consumer<String> onText)
      throws IOException, InterruptedException {
    ObjectNode body = request.deepCopy();
    body.put("stream", true);
    body.put("return_token_ids", true);
    body.putObject("stream_options").put("include_usage", true);
    long began = System.nanoTime();
    HttpResponse<Stream<String>> response =
        http.send(
            HttpRequest.newBuilder(server.resolve("/v1/completions"))
                .timeout(PATIENCE)
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body.toString()))
                .build(),
            HttpResponse.BodyHandlers.ofLines());
    try (Stream<String> lines = response.body()) {
      if (response.statusCode() != 200) {
        throw new IOException(
            "server="
                + server
                + " status="
                + response.statusCode()
                + ": "
                + lines.collect(Collectors.joining(" ")));
      }
      return read(server, lines.iterator(), began, onText);
    }
  }

  private static Outcome read(
      URI server, Iterator<String> lines, long began, Consumer<String> onText) throws IOException {
    List<Integer> tokens = new ArrayList<>();
    StringBuilder text = new StringBuilder();
    long first = -1;
    int promptTokens = 0;
    while (lines.hasNext()) {
      String line = lines.next();
      if (!line.startsWith("data: ")) {
        continue;
      }
      if (line.equals("data: [DONE]")) {
        return new Outcome(tokens, text.toString(), promptTokens, first);
      }
      JsonNode event = JsonMapper.shared().readTree(line.substring("data: ".length()));
      if (event.has("error")) {
        throw new IOException("server=" + server + " broke off: " + event);
      }
      if (first < 0) {
        first = (System.nanoTime() - began) / 1_000_000;
      }
      for (JsonNode choice : event.path("choices")) {
        choice.path("token_ids").forEach(id -> tokens.add(id.asInt()));
        String piece = choice.path("text").asString("");
        text.append(piece);
        onText.accept(piece);
      }
      promptTokens = Math.max(promptTokens, event.path("usage").path("prompt_tokens").asInt(0));
    }
    throw new IOException("server=" + server + " broke off before the end of its answer");
  }

  /** The sum over all label values of a meter in a server's scrape; 0 if it is not there. */
  public double metric(URI server, String name) throws IOException, InterruptedException {
    String scrape =
        http.send(
                HttpRequest.newBuilder(server.resolve("/metrics")).timeout(PATIENCE).build(),
                HttpResponse.BodyHandlers.ofString())
            .body();
    return scrape
        .lines()
        .filter(line -> line.startsWith(name + "{") || line.startsWith(name + " "))
        .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
        .sum();
  }

  @Override
  public void close() {
    http.close();
  }
}
