package dev.mooncake4j.core.config;

import dev.mooncake4j.connector.ConnectorConfig;
import java.time.Duration;
import java.util.StringJoiner;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Logs the configuration in force, in one line; a connector does so once, when it opens. */
public final class EffectiveConfigLog {
  private static final Logger log = LoggerFactory.getLogger(EffectiveConfigLog.class);

  private EffectiveConfigLog() {}

  /** Logs every value at INFO. */
  public static void log(ConnectorConfig config) {
    if (log.isInfoEnabled()) {
      log.info("configuration: {}", describe(config));
    }
  }

  /**
   * Every value as {@code name=value}. Of the keys that are not known only the names: nobody can
   * tell what is in them.
   */
  static String describe(ConnectorConfig config) {
    StringJoiner all = new StringJoiner(", ");
    all.add("kv_connector=" + config.connectorName());
    all.add("kv_role=" + config.role().configName());
    all.add("engine_id=" + config.engineId());
    all.add("model_name=" + config.modelName());
    all.add("host=" + config.host());
    all.add("master_host=" + orUnset(config.masterHost()));
    all.add("num_workers=" + config.numWorkers());
    all.add("mooncake_protocol=" + config.protocol());
    all.add("device_name=" + String.join(",", config.deviceNames()));
    all.add("kv_lease_duration=" + seconds(config.leaseDuration()));
    all.add("bootstrap_server_address=" + orUnset(config.bootstrapServerAddress()));
    all.add("bootstrap_allowed_hosts=" + config.bootstrapAllowedHosts());
    all.add("peer_allowed_hosts=" + config.peerAllowedHosts());
    all.add("kv_cache_fingerprint=" + orUnset(config.kvCacheFingerprint()));
    all.add("integrity_check=" + config.integrityCheck());
    all.add("send_while_prefill=" + config.sendWhilePrefill());
    all.add("bootstrap_port=" + config.bootstrapPort());
    all.add("connector_timeout=" + seconds(config.connectorTimeout()));
    all.add("abort_request_timeout=" + seconds(config.abortRequestTimeout()));
    all.add("cache_spec=" + config.cacheSpec());
    all.add("engine_library=" + orUnset(config.engineLibrary()));
    all.add("shared_secret=" + (config.sharedSecret() == null ? "unset" : "set"));
    all.add("unknown_keys=" + new TreeSet<>(config.extra().keySet()));
    return all.toString();
  }

  private static String orUnset(@Nullable Object value) {
    return value == null ? "unset" : value.toString();
  }

  private static String seconds(@Nullable Duration value) {
    return value == null ? "unset" : value.toNanos() / 1e9 + "s";
  }
}
