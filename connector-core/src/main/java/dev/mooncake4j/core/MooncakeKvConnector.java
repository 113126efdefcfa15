package dev.mooncake4j.core;

import dev.mooncake4j.bootstrap.BootstrapException;
import dev.mooncake4j.bootstrap.BootstrapServer;
import dev.mooncake4j.bootstrap.BootstrapServerConfig;
import dev.mooncake4j.connector.BootstrapUnavailableException;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.channel.ZmtpSideChannel;
import dev.mooncake4j.core.config.EffectiveConfigLog;
import dev.mooncake4j.core.discovery.AllowedHosts;
import dev.mooncake4j.core.discovery.HttpBootstrap;
import dev.mooncake4j.core.report.CompositeTransferListener;
import dev.mooncake4j.core.report.TransferSummaryLog;
import dev.mooncake4j.core.scheduler.MooncakeScheduler;
import dev.mooncake4j.core.worker.Closing;
import dev.mooncake4j.core.worker.MooncakeWorker;
import dev.mooncake4j.core.worker.RegistrationPlace;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The connector of one process: its scheduler side, its workers, its bootstrap server. */
final class MooncakeKvConnector implements KvConnector {
  private static final Logger LOG = LoggerFactory.getLogger(MooncakeKvConnector.class);

  private final ConnectorConfig config;
  private final ConnectorHooks hooks;
  private final AllowedHosts allowedHosts;
  private final KvScheduler scheduler;
  private final TransferSummaryLog summary;
  private final TransferListener listener;
  private final ReentrantLock lock = new ReentrantLock();
  private final List<KvWorker> workers = new ArrayList<>();
  private @Nullable HttpBootstrap bootstrap;
  private @Nullable BootstrapServer server;
  private final Closing closing = new Closing();
  private boolean closed;

  MooncakeKvConnector(ConnectorConfig config, ConnectorHooks hooks) {
    this.config = config;
    this.hooks = hooks;
    this.allowedHosts = AllowedHosts.of("bootstrap_allowed_hosts", config.bootstrapAllowedHosts());
    // Read by each worker; refused here, before anything has started.
    AllowedHosts.of("peer_allowed_hosts", config.peerAllowedHosts());
    this.scheduler = new MooncakeScheduler(config);
    this.summary = new TransferSummaryLog(hooks.clock());
    this.listener = CompositeTransferListener.of(hooks.listener(), summary);
    EffectiveConfigLog.log(config);
    if (config.sharedSecret() != null
        && config.role().isConsumer()
        && config.bootstrapAllowedHosts().isEmpty()) {
      LOG.warn(
          "shared_secret is set and bootstrap_allowed_hosts is not: the secret is sent to whichever"
              + " host a request names in remote_bootstrap_addr; name the cluster's hosts there if"
              + " clients of this decoder are not trusted");
    }
  }

  @Override
  public ConnectorConfig config() {
    return config;
  }

  @Override
  public KvScheduler scheduler() {
    return scheduler;
  }

  @Override
  public KvWorker openWorker(RankLayout rank) {
    lock.lock();
    try {
      if (closed) {
        throw new IllegalStateException("connector is closed: open another");
      }
      for (KvWorker worker : workers) {
        if (worker.rank().equals(rank)) {
          throw new IllegalStateException("rank=" + rank + " has a worker already");
        }
      }
      boolean hadServer = server != null;
      startServer(rank);
      try {
        KvWorker worker = startWorker(rank);
        workers.add(worker);
        return worker;
      } catch (RuntimeException | Error e) {
        BootstrapServer started = server;
        if (!hadServer && started != null) {
          started.close();
          server = null;
        }
        throw e;
      }
    } finally {
      lock.unlock();
    }
  }

  /** The first rank hosts the server, and it answers before any memory is registered. */
  private void startServer(RankLayout rank) {
    if (server != null
        || !rank.isFirst()
        || !config.role().isProducer()
        || config.bootstrapServerAddress() != null) {
      return;
    }
    // Ranks of this host register at the loopback address, decoders ask at the host's own.
    String listenOn = isLoopback(config.host()) ? HostAddresses.bare(config.host()) : "0.0.0.0";
    try {
      server =
          BootstrapServer.start(
              BootstrapServerConfig.onPort(config.bootstrapPort())
                  .withHost(listenOn)
                  .withSecret(config.sharedSecret()),
              rank.dpRank(),
              config.engineId());
    } catch (BootstrapException e) {
      throw new BootstrapUnavailableException(
          "the bootstrap server did not start, port="
              + config.bootstrapPort()
              + ": "
              + e.getMessage()
              + "; each instance on a host needs its own VLLM_MOONCAKE_BOOTSTRAP_PORT",
          e);
    }
  }

  private static boolean isLoopback(String host) {
    String bare = HostAddresses.bare(host);
    return bare.startsWith("127.") || bare.equals("::1") || bare.equals("localhost");
  }

  private KvWorker startWorker(RankLayout rank) {
    HttpBootstrap client = bootstrap;
    if (client == null) {
      client = new HttpBootstrap(config.connectorTimeout(), allowedHosts, config.sharedSecret());
      bootstrap = client;
    }
    TransferEngine engine =
        engineProvider()
            .open(
                new EngineConfig(
                    config.host(),
                    config.protocol(),
                    config.deviceNames(),
                    config.engineLibrary(),
                    hooks.clock(),
                    hooks.engineThreadStart()));
    SideChannel channel = null;
    try {
      channel = new ZmtpSideChannel(config.sharedSecret());
      return new MooncakeWorker(
          config,
          hooks,
          rank,
          engine,
          channel,
          client,
          registrationPlace(),
          listener,
          summary::logIfDue,
          () -> forget(rank));
    } catch (RuntimeException | Error e) {
      if (channel != null) {
        channel.close();
      }
      engine.close();
      throw e;
    }
  }

  private TransferEngineProvider engineProvider() {
    TransferEngineProvider given = hooks.engineProvider();
    if (given != null) {
      return given;
    }
    return ServiceLoader.load(
            TransferEngineProvider.class, TransferEngineProvider.class.getClassLoader())
        .findFirst()
        .orElseThrow(
            () ->
                new EngineUnavailableException(
                    "no transfer engine is on the path: add the transfer-native artifact", null));
  }

  /** Where prefiller ranks of this process register. */
  private RegistrationPlace registrationPlace() {
    String elsewhere = config.bootstrapServerAddress();
    if (elsewhere != null) {
      return RegistrationPlace.elsewhere("http://" + elsewhere);
    }
    String master = config.masterHost();
    if (server != null) {
      String own = isLoopback(config.host()) ? config.host() : "127.0.0.1";
      return RegistrationPlace.here("http://" + HostAddresses.join(own, server.port()));
    }
    return RegistrationPlace.elsewhere(
        "http://"
            + HostAddresses.join(master != null ? master : "127.0.0.1", config.bootstrapPort()));
  }

  @Override
  public @Nullable URI bootstrapAddress() {
    lock.lock();
    try {
      if (!config.role().isProducer()) {
        return null;
      }
      String elsewhere = config.bootstrapServerAddress();
      if (elsewhere != null) {
        return URI.create("http://" + elsewhere);
      }
      BootstrapServer own = server;
      if (own != null) {
        return URI.create("http://" + HostAddresses.join(config.host(), own.port()));
      }
      String master = config.masterHost();
      return workers.isEmpty() || master == null
          ? null
          : URI.create("http://" + HostAddresses.join(master, config.bootstrapPort()));
    } finally {
      lock.unlock();
    }
  }

  private void forget(RankLayout rank) {
    lock.lock();
    try {
      workers.removeIf(worker -> worker.rank().equals(rank));
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void close() {
    List<KvWorker> open;
    boolean first;
    lock.lock();
    try {
      first = !closed;
      closed = true;
      open = List.copyOf(workers);
    } finally {
      lock.unlock();
    }
    if (!first) {
      closing.awaitEnd();
      return;
    }
    try {
      closeAll(open);
    } finally {
      closing.ended();
    }
  }

  /** First of all: a rank that registered now would find nobody soon. */
  private void drainServer() {
    lock.lock();
    try {
      if (server != null) {
        server.drain();
      }
    } finally {
      lock.unlock();
    }
  }

  private void closeAll(List<KvWorker> open) {
    drainServer();
    // Outside the lock: a worker that has closed says so here.
    for (KvWorker worker : open) {
      try {
        worker.close();
      } catch (RuntimeException e) {
        LOG.warn("closing: worker rank={} failed to close", worker.rank(), e);
      }
    }
    lock.lock();
    try {
      if (server != null) {
        server.close();
      }
      if (bootstrap != null) {
        bootstrap.close();
      }
    } finally {
      lock.unlock();
    }
  }
}
