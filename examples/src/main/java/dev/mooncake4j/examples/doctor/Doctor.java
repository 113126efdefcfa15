package dev.mooncake4j.examples.doctor;

import dev.mooncake4j.connector.ConfigurationException;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.engine.NativeTransferEngineProvider;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * Looks at all that a transfer needs, and says of each thing whether it is well, and of each fault
 * what to do next. What it prints belongs into a bug report; there is no secret in it.
 */
@Command(
    name = "doctor",
    sortOptions = false,
    usageHelpAutoWidth = true,
    description = {
      "Looks at the engine, the JVM, devices, addresses and ports of this host, and at bootstrap"
          + " servers and side channels of others. Ends with 0 if all is well, else with 1."
    },
    footer = {"", "doctor --bootstrap http://10.0.0.1:8998"})
public final class Doctor implements Callable<Integer> {

  @Option(
      names = "--bootstrap",
      paramLabel = "URL",
      description = "A prefiller's bootstrap server that is to be reached. Once for each.")
  private List<String> bootstrap = new ArrayList<>();

  @Option(
      names = "--bootstrap-port",
      paramLabel = "PORT",
      description =
          "The port that a prefiller here would take; default $VLLM_MOONCAKE_BOOTSTRAP_PORT, or"
              + " 8998.")
  private @Nullable Integer bootstrapPort;

  @Option(
      names = "--kv-transfer-config",
      paramLabel = "JSON",
      description = "The configuration that the server has.")
  private @Nullable String kvTransferConfig;

  @Option(
      names = "--secret-file",
      paramLabel = "FILE",
      description =
          "The file with the shared secret, where there is one; default as the connector's.")
  private @Nullable Path secretFile;

  @Option(
      names = "--loopback-mib",
      defaultValue = "64",
      paramLabel = "N",
      description =
          "How much goes from engine to engine here, in MiB; 0 for nothing. Default"
              + " ${DEFAULT-VALUE}.")
  private int loopbackMib;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Shows this.")
  @SuppressWarnings("UnusedVariable") // read by picocli
  private boolean help;

  @Spec private @Nullable CommandSpec spec;

  private final Map<String, String> environment;

  Doctor(Map<String, String> environment) {
    this.environment = environment;
  }

  /** Looks, prints, and exits with 0 or 1. */
  public static void main(String[] args) {
    System.exit(commandLine(System.getenv()).execute(args));
  }

  static CommandLine commandLine(Map<String, String> environment) {
    return new CommandLine(new Doctor(environment));
  }

  @Override
  public Integer call() {
    CommandSpec own = spec;
    if (own == null) {
      throw new IllegalStateException("not run as a command");
    }
    if (loopbackMib < 0 || loopbackMib > 65_536) {
      throw new CommandLine.ParameterException(
          own.commandLine(), "--loopback-mib " + loopbackMib + " is not within 0 to 65536");
    }
    PrintWriter out = own.commandLine().getOut();
    out.println(
        "doctor: mooncake4j revision="
            + System.getProperty("mooncake4j.revision", "unknown")
            + " time="
            + Instant.now().truncatedTo(ChronoUnit.SECONDS));
    Report report = new Report(out);
    look(report);
    out.println(report.problems() == 0 ? "doctor: ok" : "doctor: problems=" + report.problems());
    out.flush();
    return report.problems() == 0 ? 0 : 1;
  }

  private void look(Report report) {
    MachineChecks machine = new MachineChecks(report, Path.of("/"));
    machine.jvm();
    machine.environment(environment);
    boolean rdma = machine.devices(environment);
    ConnectorConfig config = configuration(report);
    SharedSecret secret = config.sharedSecret();
    NetworkChecks network = new NetworkChecks(report, secret, NetworkChecks.PATIENCE);
    network.host(config.host());
    boolean running = network.bootstrapPort(config.bootstrapPort());
    List<String> servers = new ArrayList<>(bootstrap);
    if (running && servers.isEmpty()) {
      servers.add("http://127.0.0.1:" + config.bootstrapPort());
    }
    servers.forEach(network::bootstrap);
    EngineChecks engine = new EngineChecks(report, new NativeTransferEngineProvider(), config);
    if (engine.library() && loopbackMib > 0) {
      engine.loopback(rdma, loopbackMib);
    }
  }

  /** Of the JSON, if there is one, the options and the environment. */
  private ConnectorConfig build(@Nullable String json) {
    ConnectorConfig.Builder builder = ConnectorConfig.builder().environment(environment);
    if (json == null) {
      builder.role(KvRole.BOTH);
    } else {
      builder.kvTransferConfig(json);
    }
    if (bootstrapPort != null) {
      builder.bootstrapPort(bootstrapPort);
    }
    if (secretFile != null) {
      builder.sharedSecretFile(secretFile);
    }
    return builder.build();
  }

  /** What the rest is looked at with where the server's configuration cannot be used. */
  private ConnectorConfig substitute(Report report) {
    if (kvTransferConfig != null) {
      try {
        ConnectorConfig config = build(null);
        report.note("the rest is looked at without the --kv-transfer-config");
        return config;
      } catch (ConfigurationException e) {
        // Told already, with all other problems.
      }
    }
    report.note("the rest is looked at with the defaults, and without a shared secret");
    return ConnectorConfig.builder().environment(Map.of()).role(KvRole.BOTH).build();
  }

  /** What the server would have, as far as that can be used. */
  private ConnectorConfig configuration(Report report) {
    report.section("configuration");
    try {
      ConnectorConfig config = build(kvTransferConfig);
      Map<String, Object> shown = new LinkedHashMap<>();
      shown.put("kv_role", config.role().configName());
      shown.put("mooncake_protocol", config.protocol());
      shown.put("device_name", config.deviceNames());
      shown.put("num_workers", config.numWorkers());
      shown.put("kv_lease_duration", String.valueOf(config.leaseDuration()));
      shown.put("bootstrap_server_address", String.valueOf(config.bootstrapServerAddress()));
      shown.put("bootstrap_allowed_hosts", config.bootstrapAllowedHosts());
      shown.put("peer_allowed_hosts", config.peerAllowedHosts());
      shown.put("shared_secret", config.sharedSecret() == null ? "none" : "set");
      report.ok(NetworkChecks.shown(shown));
      return config;
    } catch (ConfigurationException e) {
      report.problem(String.valueOf(e.getMessage()), "correct each of these");
      return substitute(report);
    }
  }
}
