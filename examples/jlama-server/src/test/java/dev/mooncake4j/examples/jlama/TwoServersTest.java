package dev.mooncake4j.examples.jlama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.examples.jlama.convert.ModelConverter;
import dev.mooncake4j.examples.jlama.demo.CompletionClient;
import dev.mooncake4j.examples.jlama.demo.CompletionClient.Outcome;
import dev.mooncake4j.examples.jlama.demo.ServerProcess;
import dev.mooncake4j.examples.jlama.server.JlamaServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Prefill in one JVM and decode in another give the tokens that one JVM gives, with the real model
 * and the real engine. {@code ./test.sh} fetches the model; without it these tests are skipped.
 */
@Tag("model")
class TwoServersTest {
  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final int TOKENS = 32;
  private static final String STORY =
      "The old lighthouse keeper climbed the stairs every evening to light the lamp, and he wrote"
          + " down the names of the ships that passed. ";

  @TempDir static Path logs;

  private static @Nullable ServerProcess prefiller;
  private static @Nullable ServerProcess decoder;
  private static URI prefillerUrl = URI.create("http://unset");
  private static URI decoderUrl = URI.create("http://unset");
  private static String bootstrap = "";
  private static final CompletionClient client = new CompletionClient();
  private static final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();

  private static boolean modelIsThere() {
    String folder = System.getenv("MOONCAKE4J_MODEL_FOLDER");
    String gguf = System.getenv("MOONCAKE4J_MODEL_GGUF");
    return folder != null
        && gguf != null
        && (Files.isDirectory(Path.of(folder)) || Files.isRegularFile(Path.of(gguf)));
  }

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    if (!modelIsThere()) {
      return;
    }
    Path folder = Path.of(System.getenv("MOONCAKE4J_MODEL_FOLDER"));
    ModelConverter.convert(Path.of(System.getenv("MOONCAKE4J_MODEL_GGUF")), folder);
    ServerProcess p = server("prefiller", "kv_producer", folder);
    prefiller = p;
    ServerProcess d = server("decoder", "kv_consumer", folder);
    decoder = d;
    prefillerUrl = p.awaitReady(PATIENCE).url();
    bootstrap = String.valueOf(p.awaitReady(PATIENCE).bootstrap());
    decoderUrl = d.awaitReady(PATIENCE).url();
  }

  private static ServerProcess server(String name, String role, Path folder) throws IOException {
    String config =
        "{\"kv_connector\":\"MooncakeConnector\",\"engine_id\":\""
            + name
            + "\",\"kv_connector_extra_config\":{\"mooncake_protocol\":\"tcp\"}}";
    return ServerProcess.start(
        name,
        logs,
        JlamaServer.class,
        List.of(
            "--model=" + folder,
            "--role=" + role,
            "--port=0",
            "--bootstrap-port=0",
            "--threads=1",
            "--allow-unfetched",
            "--kv-transfer-config=" + config));
  }

  @AfterAll
  static void stop() {
    threads.shutdownNow();
    client.close();
    for (ServerProcess server : new @Nullable ServerProcess[] {decoder, prefiller}) {
      if (server != null) {
        server.close();
      }
    }
  }

  @BeforeEach
  void needsTheModel() {
    assumeTrue(modelIsThere(), "the model is not here: run ./test.sh, which fetches it from PyPI");
  }

  private static ObjectNode body(String prompt, int tokens) {
    ObjectNode body = JsonMapper.shared().createObjectNode();
    body.put("prompt", prompt);
    body.put("max_tokens", tokens);
    body.put("ignore_eos", true);
    return body;
  }

  private static CompletableFuture<Outcome> send(URI server, ObjectNode body) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return client.complete(server, body, piece -> {});
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        },
        threads);
  }

  /** The two requests that a proxy makes of one; what the decoder answered. */
  private static Outcome apart(ObjectNode request) {
    String transferId = UUID.randomUUID().toString();
    ObjectNode toPrefiller = request.deepCopy();
    toPrefiller.put("max_tokens", 1);
    toPrefiller.set(
        "kv_transfer_params",
        JsonMapper.shared().valueToTree(KvTransferParams.forPrefiller(transferId).toMap()));
    ObjectNode toDecoder = request.deepCopy();
    toDecoder.set(
        "kv_transfer_params",
        JsonMapper.shared()
            .valueToTree(KvTransferParams.forDecoder(transferId, "prefiller", bootstrap).toMap()));
    CompletableFuture<Outcome> prefill = send(prefillerUrl, toPrefiller);
    Outcome decoded = send(decoderUrl, toDecoder).join();
    prefill.join();
    return decoded;
  }

  /** The whole request on the prefiller, and nothing of an earlier one's KV. */
  private static Outcome alone(String prompt) {
    ObjectNode request = body(prompt, TOKENS);
    request.put("cache_salt", UUID.randomUUID().toString());
    return send(prefillerUrl, request).join();
  }

  private static double decoders(String meter) {
    try {
      return client.metric(decoderUrl, meter);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void assertSame(String prompt, int leastPromptTokens) {
    double fetchedBefore = decoders("vllm:external_prefix_cache_hits_total");
    Outcome apart = apart(body(prompt, TOKENS));
    assertThat(decoders("vllm:external_prefix_cache_hits_total")).isGreaterThan(fetchedBefore);
    Outcome alone = alone(prompt);
    assertThat(apart.tokens()).isEqualTo(alone.tokens()).hasSize(TOKENS);
    assertThat(apart.promptTokens()).isGreaterThan(leastPromptTokens);
    assertThat(decoders("vllm:mooncake_num_failed_recvs_total")).isZero();
  }

  @Test
  void aShortPrompt() {
    assertSame("Write a short note about the river that runs past the mill.", 8);
  }

  @Test
  void aPromptOfMoreThanThreeHundredTokens() {
    assertSame("Once upon a time. " + STORY.repeat(12), 300);
  }

  @Test
  void aPromptWhoseBeginningIsCachedOnBothSides() {
    String beginning = STORY + STORY;
    apart(body(beginning, 1));
    double hitsBefore = decoders("vllm:prefix_cache_hits_total");
    assertSame(beginning + "One night no ship came, and", 50);
    assertThat(decoders("vllm:prefix_cache_hits_total") - hitsBefore).isEqualTo(48);
  }

  /** The comparison above can fail. */
  @Test
  void withoutTheKvTheTokensAreOthers() {
    ObjectNode request = body(STORY, TOKENS);
    request.put("leave_kv_unfetched", true);
    request.put("cache_salt", UUID.randomUUID().toString());
    assertThat(apart(request).tokens()).isNotEqualTo(alone(STORY).tokens());
  }
}
