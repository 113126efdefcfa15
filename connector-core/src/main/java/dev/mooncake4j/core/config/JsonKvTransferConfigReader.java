package dev.mooncake4j.core.config;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.spi.KvTransferConfigReader;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.TokenStreamLocation;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;
import tools.jackson.databind.node.StringNode;

/**
 * Reads vLLM's {@code --kv-transfer-config} JSON.
 *
 * <p>Known keys are checked for type and value. The keys of vLLM's KVTransferConfig that mean
 * nothing here are ignored. Others warn and are kept, as plain maps, lists, strings, numbers and
 * booleans, in {@link ConnectorConfig#extra()}. {@code null} means that a key is not given.
 * Thread-safe.
 */
public final class JsonKvTransferConfigReader implements KvTransferConfigReader {
  private static final Logger log = LoggerFactory.getLogger(JsonKvTransferConfigReader.class);

  private static final String EXTRA_CONFIG = "kv_connector_extra_config";

  /** vLLM's own keys, of this and of earlier releases, that are for other connectors. */
  private static final Set<String> IGNORED =
      Set.of(
          "kv_rank",
          "kv_parallel_size",
          "kv_ip",
          "kv_port",
          "kv_buffer_device",
          "kv_buffer_size",
          "kv_connector_module_path",
          "enable_permute_local_kv",
          "kv_load_failure_policy");

  private static final Set<String> OUTER_KEYS =
      Set.of("kv_connector", "kv_role", "engine_id", EXTRA_CONFIG);
  private static final Set<String> INNER_KEYS =
      Set.of(
          "num_workers",
          "mooncake_protocol",
          "device_name",
          "kv_lease_duration",
          "bootstrap_server_address",
          "bootstrap_allowed_hosts",
          "peer_allowed_hosts",
          "kv_cache_fingerprint",
          "integrity_check",
          "send_while_prefill",
          "shared_secret",
          "shared_secret_file");

  /** Keys whose values are never shown, and that must not be lost: one in a wrong place is told. */
  private static final Set<String> SECRET_KEYS = Set.of("shared_secret", "shared_secret_file");

  /** Characters; a configuration is a few hundred, also with other connectors' keys in it. */
  static final int MAX_CHARS = 1 << 20;

  /** Levels of nesting; ours has two, and a configuration of several connectors a few more. */
  static final int MAX_DEPTH = 32;

  private static final int MAX_NAME_CHARS = 256;
  private static final int MAX_NUMBER_CHARS = 64;
  private static final int MAX_SHOWN_CHARS = 80;
  private static final double MAX_SECONDS = 86_400;

  private static final JsonMapper MAPPER =
      JsonMapper.builder(
              JsonFactory.builder()
                  .streamReadConstraints(
                      StreamReadConstraints.builder()
                          .maxNestingDepth(MAX_DEPTH)
                          .maxNameLength(MAX_NAME_CHARS)
                          .maxNumberLength(MAX_NUMBER_CHARS)
                          .build())
                  .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                  .build())
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .build();

  /** For {@link java.util.ServiceLoader}. */
  public JsonKvTransferConfigReader() {}

  @Override
  public List<String> read(String json, ConnectorConfig.Builder into) {
    List<String> problems = new ArrayList<>();
    ObjectNode outer = parse(json, problems);
    if (outer != null) {
      readOuter(outer, into, problems);
    }
    return problems;
  }

  private static @Nullable ObjectNode parse(String json, List<String> problems) {
    if (json.length() > MAX_CHARS) {
      problems.add(
          "kv_transfer_config has characters="
              + json.length()
              + ", more than "
              + MAX_CHARS
              + ": take out what is not configuration");
      return null;
    }
    try {
      if (MAPPER.readTree(json) instanceof ObjectNode object) {
        return object;
      }
      problems.add(
          "kv_transfer_config is not a JSON object: give {\"kv_role\": \"kv_producer\"}, say");
    } catch (JacksonException e) {
      TokenStreamLocation at = e.getLocation();
      problems.add(
          "kv_transfer_config is not one JSON object"
              + (at == null ? "" : " at line=" + at.getLineNr() + ", column=" + at.getColumnNr())
              + ": "
              // It repeats what stands there.
              + (json.contains("shared_secret")
                  ? "what stands there is not shown, since the text has a shared_secret"
                  : e.getOriginalMessage()));
    }
    return null;
  }

  private static void readOuter(
      ObjectNode outer, ConnectorConfig.Builder into, List<String> problems) {
    for (Map.Entry<String, JsonNode> entry : outer.properties()) {
      String key = entry.getKey();
      JsonNode value = entry.getValue();
      if (IGNORED.contains(key)) {
        log.debug("kv_transfer_config: key {} means nothing here and is ignored", key);
      } else if (SECRET_KEYS.contains(key)) {
        // Kept as an unknown key it would be without effect, and shown with the configuration.
        problems.add("key " + key + " stands outside of " + EXTRA_CONFIG + ": it belongs inside");
      } else if (!OUTER_KEYS.contains(key)) {
        keep(key, value, INNER_KEYS, "inside " + EXTRA_CONFIG, into, problems);
      } else if (!value.isNull()) {
        readOuterValue(key, value, into, problems);
      }
    }
    if (outer.get(EXTRA_CONFIG) instanceof ObjectNode inner) {
      readInner(inner, outer, into, problems);
    }
  }

  private static void readOuterValue(
      String key, JsonNode value, ConnectorConfig.Builder into, List<String> problems) {
    if (key.equals(EXTRA_CONFIG)) {
      if (!value.isObject()) {
        // Not shown: as text of JSON in quotes it may have a secret in it.
        problems.add(key + " is not an object: give {}, say, without quotes around it");
      }
      return;
    }
    String text = text(key, value, problems);
    if (text == null) {
      return;
    }
    switch (key) {
      case "kv_connector" -> {
        if (text.isEmpty()) {
          problems.add("kv_connector is empty: give " + ConnectorConfig.MOONCAKE);
        } else {
          into.connectorName(text);
        }
      }
      case "kv_role" -> {
        try {
          into.role(KvRole.ofConfigName(text));
        } catch (IllegalArgumentException e) {
          problems.add(
              shown(key, value) + " is not one of kv_producer, kv_consumer, kv_both: give one");
        }
      }
      default -> into.engineId(text);
    }
  }

  private static void readInner(
      ObjectNode inner, ObjectNode outer, ConnectorConfig.Builder into, List<String> problems) {
    for (Map.Entry<String, JsonNode> entry : inner.properties()) {
      String key = entry.getKey();
      JsonNode value = entry.getValue();
      if (INNER_KEYS.contains(key)) {
        if (!value.isNull()) {
          readInnerValue(key, value, into, problems);
        }
      } else if (outer.has(key) && !OUTER_KEYS.contains(key) && !IGNORED.contains(key)) {
        problems.add(
            "key "
                + StringNode.valueOf(key)
                + " is given inside and outside of "
                + EXTRA_CONFIG
                + ": give it once");
      } else {
        keep(key, value, OUTER_KEYS, "outside of " + EXTRA_CONFIG, into, problems);
      }
    }
  }

  private static void readInnerValue(
      String key, JsonNode value, ConnectorConfig.Builder into, List<String> problems) {
    switch (key) {
      case "num_workers" -> {
        if (value.isIntegralNumber() && value.canConvertToInt()) {
          into.numWorkers(value.intValue());
        } else {
          problems.add(shown(key, value) + " is not a whole number: give 1 to 1024");
        }
      }
      case "kv_lease_duration" -> readLease(key, value, into, problems);
      case "bootstrap_allowed_hosts" -> {
        List<String> hosts = readHosts(key, value, problems);
        if (hosts != null) {
          into.bootstrapAllowedHosts(hosts);
        }
      }
      case "peer_allowed_hosts" -> {
        List<String> hosts = readHosts(key, value, problems);
        if (hosts != null) {
          into.peerAllowedHosts(hosts);
        }
      }
      case "integrity_check" -> {
        if (value.isBoolean()) {
          into.integrityCheck(value.booleanValue());
        } else {
          problems.add(shown(key, value) + " is not a boolean: give true or false");
        }
      }
      case "send_while_prefill" -> {
        if (value.isBoolean()) {
          into.sendWhilePrefill(value.booleanValue());
        } else {
          problems.add(shown(key, value) + " is not a boolean: give true or false");
        }
      }
      case "kv_cache_fingerprint" -> {
        String text = text(key, value, problems);
        if (text != null) {
          into.kvCacheFingerprint(text);
        }
      }
      case "mooncake_protocol" -> {
        String text = text(key, value, problems);
        if (text != null) {
          into.protocol(text);
        }
      }
      case "device_name" -> {
        String text = text(key, value, problems);
        if (text != null) {
          into.deviceName(text);
        }
      }
      case "shared_secret" -> {
        if (value.isString()) {
          into.sharedSecret(value.stringValue());
        } else {
          problems.add("shared_secret is not a string: give it in quotes");
        }
      }
      case "shared_secret_file" -> readSecretFile(key, value, into, problems);
      default -> {
        String text = text(key, value, problems);
        if (text != null) {
          into.bootstrapServerAddress(text);
        }
      }
    }
  }

  private static @Nullable List<String> readHosts(
      String key, JsonNode value, List<String> problems) {
    List<String> hosts = new ArrayList<>();
    boolean texts = value.isArray();
    for (JsonNode host : value) {
      if (host.isString()) {
        hosts.add(host.stringValue());
      } else {
        texts = false;
      }
    }
    if (texts) {
      return hosts;
    }
    problems.add(shown(key, value) + " is not a list of strings: give [\"10.0.0.0/8\"], say");
    return null;
  }

  private static void readSecretFile(
      String key, JsonNode value, ConnectorConfig.Builder into, List<String> problems) {
    String text = text(key, value, problems);
    if (text == null) {
      return;
    }
    try {
      into.sharedSecretFile(Path.of(text));
    } catch (InvalidPathException e) {
      problems.add(shown(key, value) + " is no file's name: give the file of the shared secret");
    }
  }

  private static void readLease(
      String key, JsonNode value, ConnectorConfig.Builder into, List<String> problems) {
    // As text: a whole number of 64 digits has no double that Jackson would hand out.
    double seconds = value.isNumber() ? Double.parseDouble(value.asString()) : Double.NaN;
    long nanos = Math.round(seconds * 1e9);
    if (seconds <= MAX_SECONDS && nanos > 0) {
      into.leaseDuration(Duration.ofNanos(nanos));
    } else {
      problems.add(
          shown(key, value) + " is not a number of seconds: give more than 0, at most 86400");
    }
  }

  private static void keep(
      String key,
      JsonNode value,
      Set<String> elsewhere,
      String where,
      ConnectorConfig.Builder into,
      List<String> problems) {
    if (key.toLowerCase(Locale.ROOT).contains("secret")) {
      // Without effect it would leave the door open that it was to close.
      problems.add("key " + name(key) + " is not known: give shared_secret or shared_secret_file");
      return;
    }
    String advice = elsewhere.contains(key) ? "it belongs " + where : "mend it or take it out";
    if (value.isNull()) {
      log.warn("kv_transfer_config: unknown key {} is null and left out; {}", name(key), advice);
      return;
    }
    log.warn("kv_transfer_config: unknown key {} is kept and has no effect; {}", name(key), advice);
    into.extra(key, MAPPER.treeToValue(value, Object.class));
  }

  private static @Nullable String text(String key, JsonNode value, List<String> problems) {
    if (value.isString()) {
      return value.stringValue();
    }
    problems.add(shown(key, value) + " is not a string: give it in quotes");
    return null;
  }

  /** A key from outside, quoted and escaped as JSON does it, so that it stays on its line. */
  private static String name(String key) {
    return StringNode.valueOf(key).toString();
  }

  private static String shown(String key, JsonNode value) {
    String text = value.toString();
    return key
        + "="
        + (text.length() <= MAX_SHOWN_CHARS ? text : text.substring(0, MAX_SHOWN_CHARS) + "…");
  }
}
