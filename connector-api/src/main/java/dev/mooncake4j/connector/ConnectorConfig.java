package dev.mooncake4j.connector;

import dev.mooncake4j.connector.spi.KvTransferConfigReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The effective configuration of a connector; made by {@link #builder()}.
 *
 * <p>What the builder sets overrides the JSON, and both override the environment; nothing is
 * corrected in silence. Longer than most classes: each value has a setter with its check.
 *
 * @param connectorName {@code kv_connector}
 * @param role {@code kv_role}
 * @param engineId {@code engine_id}; a random UUID where none was given
 * @param modelName value of the metric label {@code model_name}
 * @param host address that peers reach this process at; never a wildcard
 * @param masterHost address of the engine's first rank, or {@code null} for a local engine
 * @param numWorkers engine threads of one prefiller worker
 * @param protocol the engine's transport
 * @param deviceNames whitelist of RDMA devices; empty takes all
 * @param leaseDuration how long a finished prefill's blocks are kept without renewal, or {@code
 *     null} for no leases
 * @param bootstrapServerAddress {@code host:port} of a bootstrap server that runs elsewhere, or
 *     {@code null} to start one
 * @param bootstrapAllowedHosts the hosts at which a decoder asks a bootstrap server; empty for all
 *     but special addresses
 * @param peerAllowedHosts the hosts at which prefiller ranks are connected to, and decoders written
 *     to; empty for all but special addresses
 * @param kvCacheFingerprint names the model and the type of its KV, or {@code null}; two sides that
 *     both have one and differ refuse each other
 * @param integrityCheck whether a decoder asks for a digest of what was sent, and compares it
 * @param sendWhilePrefill whether a prefiller writes blocks while their prefill still goes on, as
 *     its server tells which are finished
 * @param bootstrapPort port of the bootstrap server, 0 for any free one
 * @param connectorTimeout for each HTTP request to a bootstrap server
 * @param abortRequestTimeout after which blocks that nobody fetched are released, and that a pull
 *     waits at most for its prefill
 * @param cacheSpec the shape of the model's KV cache
 * @param engineLibrary the engine library's file, or {@code null} to search for one
 * @param sharedSecret what this process's bootstrap server and side channel ask for and what it
 *     gives to others', or {@code null} for none, as vLLM has it; never shown
 * @param extra keys of {@code kv_connector_extra_config} that are not known here, as they came
 */
public record ConnectorConfig(
    String connectorName,
    KvRole role,
    String engineId,
    String modelName,
    String host,
    @Nullable String masterHost,
    int numWorkers,
    String protocol,
    List<String> deviceNames,
    @Nullable Duration leaseDuration,
    @Nullable String bootstrapServerAddress,
    List<String> bootstrapAllowedHosts,
    List<String> peerAllowedHosts,
    @Nullable String kvCacheFingerprint,
    boolean integrityCheck,
    boolean sendWhilePrefill,
    int bootstrapPort,
    Duration connectorTimeout,
    Duration abortRequestTimeout,
    KvCacheSpec cacheSpec,
    @Nullable Path engineLibrary,
    @Nullable SharedSecret sharedSecret,
    Map<String, Object> extra) {

  /** Name of the connector that connector-core provides. */
  public static final String MOONCAKE = "MooncakeConnector";

  /** The transports that builds of the engine have; a name that is none of them is a mistake. */
  private static final Set<String> PROTOCOLS =
      new TreeSet<>(
          Set.of(
              "ascend",
              "barex",
              "cxl",
              "efa",
              "hip",
              "maca",
              "musa",
              "nvlink",
              "nvlink_intra",
              "nvmeof",
              "rdma",
              "tcp",
              "ub",
              "ubshmem"));

  /** Copies the collections. */
  public ConnectorConfig {
    deviceNames = List.copyOf(deviceNames);
    bootstrapAllowedHosts = List.copyOf(bootstrapAllowedHosts);
    peerAllowedHosts = List.copyOf(peerAllowedHosts);
    extra = Map.copyOf(extra);
  }

  /** Who and where it is; of the keys that are not known the names alone. */
  @Override
  public String toString() {
    return "ConnectorConfig[connectorName="
        + connectorName
        + ", role="
        + role
        + ", engineId="
        + engineId
        + ", host="
        + host
        + ", protocol="
        + protocol
        + ", extra="
        + new TreeSet<>(extra.keySet())
        + "]";
  }

  /** A builder with every value at its default. */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * The configuration that a {@code --kv-transfer-config} JSON and this process's environment give.
   *
   * @throws ConfigurationException with every problem in one message
   */
  public static ConnectorConfig fromJson(String json) {
    return builder().kvTransferConfig(json).build();
  }

  /**
   * Collects values; each setter checks its own range and {@link #build()} reports every problem
   * together. Not thread-safe.
   */
  public static final class Builder {
    private static final Duration SHORTEST_LEASE = Duration.ofMillis(100);

    private final List<String> problems = new ArrayList<>();
    private final Map<String, Object> extra = new LinkedHashMap<>();
    private @Nullable String json;
    private @Nullable String connectorName;
    private @Nullable KvRole role;
    private @Nullable String engineId;
    private @Nullable String modelName;
    private @Nullable String host;
    private @Nullable String masterHost;
    private @Nullable Integer numWorkers;
    private @Nullable String protocol;
    private @Nullable List<String> deviceNames;
    private @Nullable Duration leaseDuration;
    private @Nullable String bootstrapServerAddress;
    private @Nullable List<String> bootstrapAllowedHosts;
    private @Nullable List<String> peerAllowedHosts;
    private @Nullable String kvCacheFingerprint;
    private @Nullable Boolean integrityCheck;
    private @Nullable Boolean sendWhilePrefill;
    private @Nullable Integer bootstrapPort;
    private @Nullable Duration connectorTimeout;
    private @Nullable Duration abortRequestTimeout;
    private KvCacheSpec cacheSpec = KvCacheSpec.fullAttention(16);
    private @Nullable Path engineLibrary;
    private @Nullable SharedSecret sharedSecret;
    private boolean secretGiven;
    private Map<String, String> environment = System.getenv();

    private Builder() {}

    /**
     * Takes the values of a {@code --kv-transfer-config} JSON, read at {@link #build()}; what the
     * setters say, before or after this call, overrides it.
     */
    public Builder kvTransferConfig(String json) {
      this.json = json;
      return this;
    }

    /** {@code kv_connector}; default {@value ConnectorConfig#MOONCAKE}. */
    public Builder connectorName(String name) {
      this.connectorName = name;
      return this;
    }

    /** {@code kv_role}; there is no default. */
    public Builder role(KvRole role) {
      this.role = role;
      return this;
    }

    /** {@code engine_id}; default a random UUID. */
    public Builder engineId(String id) {
      if (id.isEmpty()) {
        problems.add("engine_id is empty: leave it out for a random one");
      }
      this.engineId = id;
      return this;
    }

    /** Value of the metric label {@code model_name}; default empty. */
    public Builder modelName(String name) {
      this.modelName = name;
      return this;
    }

    /** Address that peers reach this process at; default {@code VLLM_HOST_IP}, else found out. */
    public Builder host(String host) {
      HostAddresses.checkAdvertised("host", host, problems);
      this.host = host;
      return this;
    }

    /** Address of the engine's first rank, where this process is another one on another host. */
    public Builder masterHost(String host) {
      HostAddresses.checkAdvertised("master_host", host, problems);
      this.masterHost = host;
      return this;
    }

    /** {@code num_workers}: engine threads of one prefiller worker, 1 to 1024; default 10. */
    public Builder numWorkers(int n) {
      range("num_workers", n, 1, 1024);
      this.numWorkers = n;
      return this;
    }

    /** {@code mooncake_protocol}: the engine's transport; default {@code rdma}. */
    public Builder protocol(String protocol) {
      if (!PROTOCOLS.contains(protocol)) {
        problems.add(
            "mooncake_protocol="
                + protocol
                + " is no transport of the engine: give one of "
                + PROTOCOLS);
      }
      this.protocol = protocol;
      return this;
    }

    /** {@code device_name}: comma-separated whitelist of RDMA devices; default empty, all. */
    public Builder deviceName(String commaSeparated) {
      List<String> names = new ArrayList<>();
      for (String name : commaSeparated.split(",", -1)) {
        if (!name.isBlank()) {
          names.add(name.strip());
        }
      }
      this.deviceNames = names;
      return this;
    }

    /** {@code kv_lease_duration}: 0.1 s to a day; default unset, no leases. */
    public Builder leaseDuration(Duration duration) {
      duration("kv_lease_duration", duration);
      if (duration.isPositive() && duration.compareTo(SHORTEST_LEASE) < 0) {
        problems.add(
            "kv_lease_duration=" + duration + " is too short to be renewed: give 0.1 s or more");
      }
      this.leaseDuration = duration;
      return this;
    }

    /** {@code bootstrap_server_address}: {@code host:port} of a server that runs elsewhere. */
    public Builder bootstrapServerAddress(String hostAndPort) {
      HostAddresses.checkHostAndPort("bootstrap_server_address", hostAndPort, problems);
      this.bootstrapServerAddress = hostAndPort;
      return this;
    }

    /**
     * {@code bootstrap_allowed_hosts}: which hosts a request's {@code remote_bootstrap_addr} may
     * name. Each entry is a name, a name's end as {@code *.cluster.local}, an address, or a range
     * of addresses as {@code 10.0.0.0/8}; names are not looked up. Default empty: every host but
     * link-local, multicast and wildcard addresses.
     */
    public Builder bootstrapAllowedHosts(List<String> hosts) {
      this.bootstrapAllowedHosts = hosts("bootstrap_allowed_hosts", hosts);
      return this;
    }

    /**
     * {@code peer_allowed_hosts}: at which hosts a prefiller rank may be that a bootstrap server
     * tells a decoder of, and a decoder's engine that a pull tells a prefiller of. Entries as in
     * {@link #bootstrapAllowedHosts}. Default empty: every host but link-local, multicast and
     * wildcard addresses.
     */
    public Builder peerAllowedHosts(List<String> hosts) {
      this.peerAllowedHosts = hosts("peer_allowed_hosts", hosts);
      return this;
    }

    private List<String> hosts(String key, List<String> hosts) {
      if (hosts.stream().anyMatch(String::isBlank)) {
        problems.add(key + " has an empty entry: take it out");
      }
      return List.copyOf(hosts);
    }

    /**
     * {@code kv_cache_fingerprint}: any text of 1 to 256 characters that differs when blocks of
     * equal length mean different things, as {@code Qwen2.5-7B bf16}. A prefiller refuses the pulls
     * of a decoder that has another one; vLLM ignores it. Default none: nothing is compared.
     */
    public Builder kvCacheFingerprint(String text) {
      if (text.isBlank() || text.length() > 256) {
        problems.add(
            "kv_cache_fingerprint has characters=" + text.length() + ": give 1 to 256, not blank");
      }
      this.kvCacheFingerprint = text;
      return this;
    }

    /**
     * {@code integrity_check}: whether a decoder asks for a digest of each request's bytes, taken
     * before they are sent, and fails the request if what has arrived differs. Costs one reading of
     * the bytes on each side; host memory only, and no digest comes from vLLM. Default false.
     */
    public Builder integrityCheck(boolean check) {
      this.integrityCheck = check;
      return this;
    }

    /**
     * {@code send_while_prefill}: whether a prefiller writes blocks to a decoder that waits as soon
     * as {@link KvScheduler#onPrefillProgress} says that they are finished, instead of all after
     * the prefill. The server keeps the blocks of an aborted prefill then until it is told ({@link
     * KvScheduler#onRequestFinished}). No other setting of the decoder's is needed. Default false.
     */
    public Builder sendWhilePrefill(boolean send) {
      this.sendWhilePrefill = send;
      return this;
    }

    /** {@code VLLM_MOONCAKE_BOOTSTRAP_PORT}: 0 (any free one) to 65535; default 8998. */
    public Builder bootstrapPort(int port) {
      range("bootstrap_port", port, 0, 65535);
      this.bootstrapPort = port;
      return this;
    }

    /** {@code VLLM_MOONCAKE_CONNECTOR_TIMEOUT}: more than 0, at most a day; default 30 s. */
    public Builder connectorTimeout(Duration timeout) {
      duration("connector_timeout", timeout);
      this.connectorTimeout = timeout;
      return this;
    }

    /** {@code VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT}: more than 0, at most a day; default 480 s. */
    public Builder abortRequestTimeout(Duration timeout) {
      duration("abort_request_timeout", timeout);
      this.abortRequestTimeout = timeout;
      return this;
    }

    /** The shape of the model's KV cache; default one full-attention group of 16-token blocks. */
    public Builder cacheSpec(KvCacheSpec spec) {
      this.cacheSpec = spec;
      return this;
    }

    /** The engine library's file; default searched for. */
    public Builder engineLibrary(Path file) {
      this.engineLibrary = file;
      return this;
    }

    /**
     * {@code shared_secret}, {@code MOONCAKE4J_SHARED_SECRET}: 16 to 128 printable ASCII characters
     * without spaces; default none. The same for all prefillers and decoders that are to work
     * together, of which none can be a vLLM then.
     */
    public Builder sharedSecret(String secret) {
      secretIsGivenOnce();
      this.sharedSecret = SharedSecret.read("shared_secret", secret, problems);
      return this;
    }

    /**
     * {@code shared_secret_file}, {@code MOONCAKE4J_SHARED_SECRET_FILE}: the file that has the
     * shared secret and nothing else but an end of line. Reads it.
     */
    public Builder sharedSecretFile(Path file) {
      secretIsGivenOnce();
      this.sharedSecret = SharedSecret.readFile("shared_secret_file", file.toString(), problems);
      return this;
    }

    private void secretIsGivenOnce() {
      if (secretGiven) {
        problems.add("shared_secret is given twice, or as shared_secret_file too: give it once");
      }
      secretGiven = true;
    }

    /** A key of {@code kv_connector_extra_config} that is not known here; kept as it is. */
    public Builder extra(String key, Object value) {
      extra.put(key, value);
      return this;
    }

    /** The environment to read; default the process's own. */
    public Builder environment(Map<String, String> environment) {
      this.environment = Map.copyOf(environment);
      return this;
    }

    /**
     * Puts the values together.
     *
     * @throws ConfigurationException with every problem in one message
     */
    public ConnectorConfig build() {
      List<String> found = new ArrayList<>(problems);
      Builder low = new Builder();
      if (json != null) {
        readJson(json, low, found);
      }
      EnvironmentSettings env = EnvironmentSettings.read(environment, found);
      SharedSecret lowerSecret = low.secretGiven ? low.sharedSecret : env.sharedSecret();
      KvRole effectiveRole = role != null ? role : low.role;
      if (effectiveRole == null && found.stream().noneMatch(Builder::explainsRole)) {
        found.add("kv_role is not set: give kv_producer, kv_consumer or kv_both");
      }
      String effectiveHost = host != null ? host : low.host;
      if (effectiveHost == null) {
        effectiveHost = env.host() != null ? env.host() : HostAddresses.ofThisHost();
      }
      Map<String, Object> allExtra = new LinkedHashMap<>(low.extra);
      allExtra.putAll(extra);
      if (!found.isEmpty() || effectiveRole == null) {
        throw new ConfigurationException(found);
      }
      return new ConnectorConfig(
          or(connectorName, or(low.connectorName, MOONCAKE)),
          effectiveRole,
          or(engineId, or(low.engineId, UUID.randomUUID().toString())),
          or(modelName, or(low.modelName, "")),
          effectiveHost,
          masterHost,
          or(numWorkers, or(low.numWorkers, 10)),
          or(protocol, or(low.protocol, "rdma")),
          or(deviceNames, or(low.deviceNames, List.of())),
          leaseDuration != null ? leaseDuration : low.leaseDuration,
          bootstrapServerAddress != null ? bootstrapServerAddress : low.bootstrapServerAddress,
          or(bootstrapAllowedHosts, or(low.bootstrapAllowedHosts, List.of())),
          or(peerAllowedHosts, or(low.peerAllowedHosts, List.of())),
          kvCacheFingerprint != null ? kvCacheFingerprint : low.kvCacheFingerprint,
          or(integrityCheck, or(low.integrityCheck, false)),
          or(sendWhilePrefill, or(low.sendWhilePrefill, false)),
          or(bootstrapPort, or(low.bootstrapPort, env.bootstrapPort())),
          or(connectorTimeout, env.connectorTimeout()),
          or(abortRequestTimeout, env.abortRequestTimeout()),
          cacheSpec,
          engineLibrary,
          secretGiven ? sharedSecret : lowerSecret,
          allExtra);
    }

    /** Whether a problem that was told already is why there is no role: once is enough. */
    private static boolean explainsRole(String problem) {
      return problem.startsWith("kv_role=") || problem.startsWith("kv_transfer_config ");
    }

    private static void readJson(String json, Builder into, List<String> found) {
      KvTransferConfigReader reader =
          ServiceLoader.load(
                  KvTransferConfigReader.class, KvTransferConfigReader.class.getClassLoader())
              .findFirst()
              .orElse(null);
      if (reader == null) {
        found.add("kv_transfer_config cannot be read: add the connector-core artifact");
        return;
      }
      found.addAll(reader.read(json, into));
      found.addAll(into.problems);
    }

    private static <T> T or(@Nullable T value, T otherwise) {
      return value != null ? value : otherwise;
    }

    private void range(String name, int value, int min, int max) {
      if (value < min || value > max) {
        problems.add(name + "=" + value + " is not within " + min + " to " + max);
      }
    }

    private void duration(String name, Duration value) {
      if (value.isNegative() || value.isZero() || value.compareTo(Duration.ofDays(1)) > 0) {
        problems.add(name + "=" + value + " is not more than 0 and at most a day");
      }
    }
  }
}
