package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.ConfigurationException;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.metrics.ConnectorMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.foreign.Arena;
import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * An inference server in Java: a prefiller, a decoder, or both, by {@code --role} and {@code
 * --kv-transfer-config}; without them a server that computes everything itself.
 */
@Command(
    name = "jlama.sh",
    sortOptions = false,
    usageHelpAutoWidth = true,
    description = "An OpenAI completions endpoint that decodes greedily, with Jlama.")
public final class JlamaServer implements Callable<Integer> {
  /** Some lines of text, so that the code of a prefill is compiled with what it will see. */
  private static final String WARM_UP =
      "The quick brown fox jumps over the lazy dog while the river runs slowly past the old mill,"
          + " and nobody in the village remembers who built the bridge.";

  @Option(
      names = "--role",
      paramLabel = "ROLE",
      description =
          "kv_producer (a prefiller), kv_consumer (a decoder) or kv_both; overrides kv_role of"
              + " --kv-transfer-config. Without either there are no transfers.")
  private @Nullable String role;

  @Option(
      names = "--kv-transfer-config",
      paramLabel = "JSON",
      description = "As for vLLM: {\"kv_connector\":\"MooncakeConnector\",\"kv_role\":…}.")
  private @Nullable String kvTransferConfig;

  @Option(
      names = "--bootstrap-port",
      paramLabel = "PORT",
      description = "Of a prefiller's bootstrap server; default 8998, 0 for any.")
  private @Nullable Integer bootstrapPort;

  @Option(names = "--host", defaultValue = "127.0.0.1", description = "Default ${DEFAULT-VALUE}.")
  private String host = "";

  @Option(
      names = "--port",
      defaultValue = "8000",
      description = "Of the endpoint; 0 for any. Default ${DEFAULT-VALUE}.")
  private int port;

  @Option(
      names = "--model",
      defaultValue = "${sys:jlama.model}",
      paramLabel = "FOLDER",
      description =
          "A model in the layout of Hugging Face, weights as single floats. Default: the one that"
              + " jlama.sh has fetched.")
  private @Nullable Path model;

  @Option(
      names = "--served-model-name",
      paramLabel = "NAME",
      description = "Default: the folder's name.")
  private @Nullable String servedName;

  @Option(
      names = "--blocks",
      defaultValue = "256",
      description = "KV blocks of 16 tokens. Default ${DEFAULT-VALUE}.")
  private int blocks;

  @Option(
      names = "--max-num-seqs",
      defaultValue = "4",
      paramLabel = "N",
      description = "Requests that run at once. Default ${DEFAULT-VALUE}.")
  private int maxSequences;

  @Option(
      names = "--threads",
      defaultValue = "2",
      description = "That Jlama computes with. Default ${DEFAULT-VALUE}.")
  private int threads;

  @Option(names = "--allow-unfetched", hidden = true)
  private boolean allowUnfetched;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Shows this.")
  @SuppressWarnings("UnusedVariable") // read by picocli
  private boolean help;

  @Spec private @Nullable CommandSpec spec;

  /** What has been started, the last one first. */
  private final Deque<Runnable> stops = new ArrayDeque<>();

  private boolean stopped;
  private @Nullable KvConnector connector;

  private JlamaServer() {}

  /** Runs the server until it is told to stop; exit code 1 if it cannot start. */
  public static void main(String[] args) {
    CommandLine command = new CommandLine(new JlamaServer());
    command.setParameterExceptionHandler(
        (wrong, given) -> {
          PrintWriter err = wrong.getCommandLine().getErr();
          String.valueOf(wrong.getMessage()).lines().forEach(l -> err.println("jlama: " + l));
          err.println("jlama: --help lists the arguments");
          return CommandLine.ExitCode.USAGE;
        });
    System.exit(command.execute(args));
  }

  @Override
  public Integer call() throws InterruptedException {
    Runtime.getRuntime().addShutdownHook(Thread.ofPlatform().name("stop").unstarted(this::stop));
    PrintWriter err = command().commandLine().getErr();
    try {
      ConnectorConfig config = config();
      int bound = start(config);
      KvConnector open = connector;
      URI bootstrap = open == null ? null : open.bootstrapAddress();
      PrintWriter out = command().commandLine().getOut();
      out.println(
          "jlama: ready on http://"
              + (host.indexOf(':') >= 0 ? "[" + host + "]" : host)
              + ":"
              + bound
              + (bootstrap == null ? "" : " bootstrap=" + bootstrap));
      out.flush();
    } catch (IOException | KvConnectorException | IllegalArgumentException e) {
      // A configuration's problems stand on a line each.
      String.valueOf(e.getMessage()).lines().forEach(l -> err.println("jlama: " + l));
      err.flush();
      return 1;
    }
    new CountDownLatch(1).await();
    return 0;
  }

  /**
   * The connector's configuration, or {@code null} for a server without transfers.
   *
   * @throws ConfigurationException with every problem
   */
  private @Nullable ConnectorConfig config() {
    if (blocks < 1 || maxSequences < 1 || threads < 1) {
      throw new CommandLine.ParameterException(
          command().commandLine(),
          "--blocks "
              + blocks
              + ", --max-num-seqs "
              + maxSequences
              + " or --threads "
              + threads
              + " is less than 1");
    }
    if (model == null) {
      throw new CommandLine.ParameterException(
          command().commandLine(), "--model is missing: give a model's folder");
    }
    if (role == null && kvTransferConfig == null) {
      return null;
    }
    ConnectorConfig.Builder builder = ConnectorConfig.builder().modelName(name());
    if (kvTransferConfig != null) {
      builder.kvTransferConfig(kvTransferConfig);
    }
    if (role != null) {
      builder.role(KvRole.ofConfigName(role));
    }
    if (bootstrapPort != null) {
      builder.bootstrapPort(bootstrapPort);
    }
    return builder.build();
  }

  private String name() {
    return servedName != null
        ? servedName
        : String.valueOf(folder().toAbsolutePath().getFileName());
  }

  private Path folder() {
    Path folder = model;
    if (folder == null) {
      throw new IllegalStateException("not run as a command");
    }
    return folder;
  }

  private int start(@Nullable ConnectorConfig config) throws IOException {
    HttpServer http = new HttpServer(host, port);
    onStop(http::close);
    progress("loading " + name());
    JlamaModel loaded = JlamaModel.load(folder(), threads);
    PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    // Never closed: a transfer that is not over when the process ends may still read it.
    KvPool pool = new KvPool(loaded.layers(), loaded.rowBytes(), blocks, Arena.ofShared());
    Engine engine = new Engine(loaded, pool, maxSequences, new ServerMeters(name(), registry));
    progress("warming up");
    engine.warmUp(loaded.encode(WARM_UP));
    KvLink link = config == null ? KvLink.NONE : connect(config, pool, engine, registry);
    engine.start(link);
    onStop(engine::close);
    Supplier<String> scrape = registry::scrape;
    http.serve(new CompletionService(name(), loaded, engine, scrape, allowUnfetched));
    progress("");
    return http.port();
  }

  private KvLink connect(
      ConnectorConfig config, KvPool pool, Engine engine, PrometheusMeterRegistry registry) {
    ConnectorMetrics metrics = new ConnectorMetrics(config.modelName());
    metrics.bindTo(registry);
    KvConnector open =
        KvConnector.open(
            config, ConnectorHooks.none().withListener(metrics).withResultsReady(engine::wake));
    onStop(open::close);
    connector = open;
    KvWorker worker = open.openWorker();
    metrics.watch(worker::stats);
    worker.registerKvCaches(pool.layout());
    return new ConnectorLink(open, worker);
  }

  private synchronized void onStop(Runnable stop) {
    if (stopped) {
      stop.run();
    } else {
      stops.push(stop);
    }
  }

  private synchronized void stop() {
    stopped = true;
    while (!stops.isEmpty()) {
      stops.pop().run();
    }
  }

  /** One line that overwrites itself; scripts ask for it where a person watches. */
  private static void progress(String what) {
    if (Boolean.getBoolean("jlama.progress")) {
      System.err.print(what.isEmpty() ? "\r\033[K" : "\r\033[Kjlama: " + what + " ...");
      System.err.flush();
    }
  }

  private CommandSpec command() {
    CommandSpec own = spec;
    if (own == null) {
      throw new IllegalStateException("not run as a command");
    }
    return own;
  }
}
