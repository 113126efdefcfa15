package dev.mooncake4j.examples.proxy;

import dev.mooncake4j.connector.SharedSecret;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The proxy as a program; its arguments are those of vLLM's example proxy, and a few more. */
@Command(
    name = "proxy",
    sortOptions = false,
    usageHelpAutoWidth = true,
    customSynopsis = "proxy --prefill URL [BOOTSTRAP_PORT] ... --decode URL ... [OPTIONS]",
    description =
        "An OpenAI endpoint in front of prefillers and decoders whose connector is Mooncake's.",
    footer = {
      "",
      "proxy --prefill http://10.0.0.1:8010 8998 --decode http://10.0.0.2:8020 --host 0.0.0.0"
    })
public final class Proxy implements Callable<Integer> {

  @Option(
      names = "--prefill",
      arity = "1..2",
      required = true,
      paramLabel = "URL [BOOTSTRAP_PORT]",
      hideParamSyntax = true,
      description =
          "A prefiller's server and the port of its bootstrap server on the same host (default"
              + " 8998). Once for each.")
  private List<String> prefill = new ArrayList<>();

  @Option(
      names = "--decode",
      required = true,
      paramLabel = "URL",
      description = "A decoder's server. Once for each.")
  private List<String> decode = new ArrayList<>();

  @Option(
      names = "--bootstrap",
      paramLabel = "URL",
      description =
          "A bootstrap server that runs elsewhere, instead of the one on the prefiller's host:"
              + " once for all prefillers, or once for each in their order.")
  private List<String> bootstrap = new ArrayList<>();

  @Option(names = "--host", defaultValue = "127.0.0.1", description = "Default ${DEFAULT-VALUE}.")
  private String host = "";

  @Option(names = "--port", defaultValue = "8000", description = "Default ${DEFAULT-VALUE}.")
  private int port;

  @Option(
      names = "--timeout",
      defaultValue = "600",
      paramLabel = "SECONDS",
      description =
          "The longest wait for an answer, and between two pieces of a stream. Default"
              + " ${DEFAULT-VALUE}.")
  private int timeout;

  @Option(
      names = "--drain",
      defaultValue = "30",
      paramLabel = "SECONDS",
      description =
          "How long requests under way may take after a SIGTERM. Default ${DEFAULT-VALUE}.")
  private int drain;

  @Option(
      names = "--secret-file",
      paramLabel = "FILE",
      description =
          "The file with the prefillers' shared secret, where they have one; default"
              + " $MOONCAKE4J_SHARED_SECRET_FILE, or the secret itself in"
              + " $MOONCAKE4J_SHARED_SECRET.")
  private @Nullable String secretFile;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Shows this.")
  @SuppressWarnings("UnusedVariable") // read by picocli
  private boolean help;

  @Spec private @Nullable CommandSpec spec;

  private Proxy() {}

  /** Runs the proxy until it is told to stop. */
  public static void main(String[] args) {
    // Below the five seconds after which vLLM's server closes a connection that nobody uses: a
    // request sent into that close would be lost.
    if (System.getProperty("jdk.httpclient.keepalive.timeout") == null) {
      System.setProperty("jdk.httpclient.keepalive.timeout", "3");
    }
    int code = commandLine().execute(args);
    if (code != 0) {
      System.exit(code);
    }
  }

  static CommandLine commandLine() {
    return new CommandLine(new Proxy())
        .setParameterExceptionHandler(
            (wrong, args) -> {
              PrintWriter err = wrong.getCommandLine().getErr();
              String.valueOf(wrong.getMessage()).lines().forEach(l -> err.println("proxy: " + l));
              err.println("proxy: --help lists the arguments");
              return CommandLine.ExitCode.USAGE;
            });
  }

  @Override
  public Integer call() throws InterruptedException {
    PrintWriter err = commandSpec().commandLine().getErr();
    ProxyServer server;
    try {
      server = ProxyServer.start(options());
    } catch (IOException e) {
      err.println("proxy: " + e.getMessage());
      return 1;
    }
    Runtime.getRuntime()
        .addShutdownHook(Thread.ofPlatform().name("proxy-stop").unstarted(server::close));
    PrintWriter out = commandSpec().commandLine().getOut();
    String shown = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
    out.println("proxy: listening on http://" + shown + ":" + server.port());
    out.flush();
    server.awaitClosed();
    return 0;
  }

  /**
   * The arguments, checked.
   *
   * @throws CommandLine.ParameterException with every problem
   */
  private ProxyOptions options() {
    List<String> problems = new ArrayList<>();
    List<Prefiller> prefillers = ProxyOptions.prefillers(prefill, bootstrap, problems);
    List<URI> decoders = new ArrayList<>();
    for (String text : decode) {
      URI url = ProxyOptions.url("--decode", text, problems);
      if (url != null) {
        decoders.add(url);
      }
    }
    range("--port", port, 0, 65535, problems);
    range("--timeout", timeout, 1, 86_400, problems);
    range("--drain", drain, 0, 86_400, problems);
    SharedSecret secret = ProxyOptions.secret(secretFile, System.getenv(), problems);
    if (!problems.isEmpty()) {
      throw new CommandLine.ParameterException(
          commandSpec().commandLine(), String.join("\n", problems));
    }
    return new ProxyOptions(
        host,
        port,
        prefillers,
        decoders,
        Duration.ofSeconds(timeout),
        Duration.ofSeconds(drain),
        ProxyOptions.REFRESH,
        ProxyOptions.MAX_BODY_BYTES,
        System.getenv("OPENAI_API_KEY"),
        secret);
  }

  private static void range(String option, int value, int min, int max, List<String> problems) {
    if (value < min || value > max) {
      problems.add(option + " " + value + " is not within " + min + " to " + max);
    }
  }

  private CommandSpec commandSpec() {
    CommandSpec own = spec;
    if (own == null) {
      throw new IllegalStateException("not run as a command");
    }
    return own;
  }
}
