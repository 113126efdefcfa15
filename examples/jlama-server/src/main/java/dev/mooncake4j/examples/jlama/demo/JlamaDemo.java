package dev.mooncake4j.examples.jlama.demo;

import dev.mooncake4j.examples.jlama.server.JlamaServer;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Sends a prompt to a prefiller, a decoder and a proxy in three JVMs, then to one JVM alone, then
 * to the three again with the KV left where it is: the tokens are to be the same, and then not.
 * Exit code 0 only if all is so.
 */
@Command(
    name = "demo.sh",
    sortOptions = false,
    usageHelpAutoWidth = true,
    description =
        "Prefill in one JVM and decode in another, with a real model. --kv-only as the first"
            + " argument is another demo: no model, recorded KV, every byte checked.")
public final class JlamaDemo implements Callable<Integer> {
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  @Option(
      names = "--prompt",
      paramLabel = "TEXT",
      description = "What to ask; ASCII.",
      defaultValue =
          "You are the keeper of a lighthouse on a small island, and once a year a ship brings you"
              + " letters from your sister in the city. Describe what you see from the top of your"
              + " tower on a clear morning in autumn, and what you will write to her.")
  private String prompt = "";

  @Option(
      names = "--max-tokens",
      paramLabel = "N",
      defaultValue = "48",
      description = "Of the answer. Default ${DEFAULT-VALUE}.")
  private int maxTokens;

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "That each server computes with. Default: one for each two cores.")
  private @Nullable Integer threads;

  @Option(names = "--model", hidden = true, defaultValue = "${sys:jlama.model}")
  private @Nullable Path model;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Shows this.")
  @SuppressWarnings("UnusedVariable") // read by picocli
  private boolean help;

  private final PrintStream out = System.out;

  private JlamaDemo() {}

  /** Runs the demo. */
  public static void main(String[] args) {
    int code = new CommandLine(new JlamaDemo()).execute(args);
    if (System.out.checkError()) {
      System.err.println("demo: failed: its output could not be written");
      code = 1;
    }
    System.exit(code);
  }

  @Override
  public Integer call() throws InterruptedException {
    try (CompletionClient client = new CompletionClient()) {
      String failure = run(client);
      if (failure != null) {
        out.println("\ndemo: failed: " + failure);
        return 1;
      }
      return 0;
    } catch (IOException e) {
      out.println("\ndemo: failed: " + e.getMessage());
      return 1;
    }
  }

  /** What was not as it should be, or {@code null}. */
  private @Nullable String run(CompletionClient client) throws IOException, InterruptedException {
    Path logs = Files.createTempDirectory("mooncake4j-demo");
    progress("starting prefiller and decoder: loading the model, warming up");
    try (ServerProcess prefiller = server("prefiller", "kv_producer", logs);
        ServerProcess decoder = server("decoder", "kv_consumer", logs)) {
      ServerProcess.Address p = prefiller.awaitReady(PATIENCE);
      ServerProcess.Address d = decoder.awaitReady(PATIENCE);
      progress("");
      URI bootstrap = p.bootstrap();
      if (bootstrap == null) {
        return "the prefiller has no bootstrap server" + prefiller.tail();
      }
      try (ServerProcess proxy =
          ServerProcess.start(
              "proxy",
              logs,
              proxyProgram(),
              List.of(
                  "--prefill",
                  p.url().toString(),
                  String.valueOf(bootstrap.getPort()),
                  "--decode",
                  d.url().toString(),
                  "--port",
                  "0"))) {
        URI front = proxy.awaitReady(PATIENCE).url();
        out.printf("prefiller  pid %-7d %s, bootstrap %s%n", prefiller.pid(), p.url(), bootstrap);
        out.printf("decoder    pid %-7d %s%n", decoder.pid(), d.url());
        out.printf("proxy      pid %-7d %s%n", proxy.pid(), front);
        return compare(client, front, p.url(), d.url());
      }
    } finally {
      progress("");
    }
  }

  private @Nullable String compare(CompletionClient client, URI front, URI prefiller, URI decoder)
      throws IOException, InterruptedException {
    out.printf("prompt     %s%n%n", prompt);
    // Once unseen, so that neither time is that of code which runs for the first time.
    progress("one request that is not shown");
    client.complete(front, request(1, false), piece -> {});
    long before = bytesMoved(client, prefiller, 0);
    progress("");
    out.println("-- through the proxy: prefill in one JVM, decode in the other");
    CompletionClient.Outcome apart = client.complete(front, request(maxTokens, false), this::show);
    long bytes = bytesMoved(client, prefiller, before) - before;
    double failed = client.metric(decoder, "vllm:mooncake_num_failed_recvs_total");
    out.println("\n\n-- on one JVM alone");
    CompletionClient.Outcome alone =
        client.complete(prefiller, request(maxTokens, false), this::show);
    out.println("\n\n-- through the proxy, with the KV left where it is");
    CompletionClient.Outcome without = client.complete(front, request(maxTokens, true), this::show);
    out.println("\n");
    out.printf(
        Locale.ROOT,
        "first token  %d ms apart, %d ms alone%n",
        apart.millisToFirst(),
        alone.millisToFirst());
    out.printf(
        Locale.ROOT,
        "KV moved     %d blocks of 16 tokens for a prompt of %d, %d bytes%n",
        Math.ceilDiv(apart.promptTokens(), 16),
        apart.promptTokens(),
        bytes);
    if (failed > 0 || bytes == 0) {
      return "no KV was moved: failed loads=" + (long) failed + " bytes=" + bytes;
    }
    if (!apart.tokens().equals(alone.tokens())) {
      return "the tokens differ: apart=" + apart.tokens() + " alone=" + alone.tokens();
    }
    if (without.tokens().equals(alone.tokens())) {
      return "the tokens are the same without the KV: the comparison says nothing";
    }
    out.printf(
        "%ndemo: ok, %d tokens are the same apart and alone, and others without the KV%n",
        alone.tokens().size());
    return null;
  }

  private ServerProcess server(String name, String role, Path logs) throws IOException {
    int each =
        threads != null ? threads : Math.max(1, Runtime.getRuntime().availableProcessors() / 2);
    return ServerProcess.start(
        name,
        logs,
        JlamaServer.class,
        List.of(
            "--model",
            String.valueOf(model),
            "--role",
            role,
            "--port",
            "0",
            "--bootstrap-port",
            "0",
            "--threads",
            String.valueOf(each),
            "--kv-transfer-config",
            "{\"kv_connector\":\"MooncakeConnector\",\"engine_id\":\"demo-"
                + name
                + "\",\"kv_connector_extra_config\":"
                + "{\"mooncake_protocol\":\"tcp\",\"kv_lease_duration\":30}}",
            "--allow-unfetched"));
  }

  /** It is on the class path at run time alone: nothing of it is called here. */
  private static Class<?> proxyProgram() {
    try {
      return Class.forName("dev.mooncake4j.examples.proxy.Proxy");
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException("the examples module is not on the class path", e);
    }
  }

  private ObjectNode request(int tokens, boolean leaveUnfetched) {
    ObjectNode body = JsonMapper.shared().createObjectNode();
    body.put("prompt", "<|im_start|>user\n" + prompt + "<|im_end|>\n<|im_start|>assistant\n");
    body.put("max_tokens", tokens);
    // No prefix of an earlier request is found: each computes, or fetches, the whole prompt.
    body.put("cache_salt", UUID.randomUUID().toString());
    if (leaveUnfetched) {
      body.put("leave_kv_unfetched", true);
    }
    return body;
  }

  /**
   * The prefiller counts a transfer when it is over there, maybe a moment after the decoder knows.
   */
  private static long bytesMoved(CompletionClient client, URI prefiller, long before)
      throws IOException, InterruptedException {
    for (int attempt = 0; attempt < 50; attempt++) {
      long bytes = (long) client.metric(prefiller, "vllm:mooncake_bytes_transferred_sum");
      if (bytes > before) {
        return bytes;
      }
      Thread.sleep(100);
    }
    return before;
  }

  private void show(String piece) {
    out.print(piece);
    out.flush();
  }

  private static void progress(String what) {
    if (Boolean.getBoolean("jlama.progress")) {
      System.err.print(what.isEmpty() ? "\r\033[K" : "\r\033[Kdemo: " + what + " ...");
      System.err.flush();
    }
  }
}
