package dev.mooncake4j.connector;

import dev.mooncake4j.connector.spi.ConnectorProvider;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import org.jspecify.annotations.Nullable;

/**
 * The entry: one per process and engine.
 *
 * <p>The scheduler's process uses {@link #scheduler()}, each rank's process {@link
 * #openWorker(RankLayout)}; a server in one process uses both. Thread-safe.
 */
public interface KvConnector extends AutoCloseable {

  /** Opens the connector that {@link ConnectorConfig#connectorName()} names, with no hooks. */
  static KvConnector open(ConnectorConfig config) {
    return open(config, ConnectorHooks.none());
  }

  /**
   * Opens the connector that {@link ConnectorConfig#connectorName()} names. No socket is bound and
   * no engine is started before {@link #openWorker(RankLayout)}.
   *
   * @throws ConfigurationException if no provider on the path has that name
   */
  static KvConnector open(ConnectorConfig config, ConnectorHooks hooks) {
    List<String> known = new ArrayList<>();
    for (ConnectorProvider provider :
        ServiceLoader.load(ConnectorProvider.class, ConnectorProvider.class.getClassLoader())) {
      if (provider.name().equals(config.connectorName())) {
        return provider.open(config, hooks);
      }
      known.add(provider.name());
    }
    throw new ConfigurationException(
        List.of(
            "kv_connector="
                + config.connectorName()
                + " is not on the path, found="
                + known
                + ": add the connector-core artifact, or mend the name"));
  }

  /** The configuration in force. */
  ConnectorConfig config();

  /** The scheduler side; the same object at each call. */
  KvScheduler scheduler();

  /**
   * Starts the worker side of one rank: its engine, its threads, its sockets.
   *
   * <p>Blocks until the engine has started.
   *
   * @throws EngineUnavailableException if no transfer engine can be opened
   * @throws KvConnectorException if anything else fails; all that had started is undone
   */
  KvWorker openWorker(RankLayout rank);

  /** {@link #openWorker(RankLayout)} for an engine with one rank. */
  default KvWorker openWorker() {
    return openWorker(RankLayout.single());
  }

  /**
   * The address that a decoder's {@code remote_bootstrap_addr} takes, once a prefiller's worker has
   * registered its caches here; {@code null} before, and on a decoder.
   */
  @Nullable URI bootstrapAddress();

  /**
   * Closes every worker of this connector, then the rest; bounded in time. Called again, also by
   * another thread meanwhile, it returns when the first call is done: a shutdown hook may call it.
   */
  @Override
  void close();
}
