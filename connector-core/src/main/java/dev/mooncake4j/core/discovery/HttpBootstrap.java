package dev.mooncake4j.core.discovery;

import dev.mooncake4j.bootstrap.BootstrapAddress;
import dev.mooncake4j.bootstrap.BootstrapClient;
import dev.mooncake4j.bootstrap.BootstrapClientConfig;
import dev.mooncake4j.bootstrap.BootstrapException;
import dev.mooncake4j.bootstrap.QueryAnswer;
import dev.mooncake4j.bootstrap.RegisterRequest;
import dev.mooncake4j.connector.BootstrapUnavailableException;
import dev.mooncake4j.connector.SharedSecret;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The bootstrap client over HTTP. */
public final class HttpBootstrap implements Bootstrap {
  private static final Logger LOG = LoggerFactory.getLogger(HttpBootstrap.class);

  private final BootstrapClient client;

  /**
   * A client whose requests may each take this long, and that asks at these hosts alone.
   *
   * @param secret what is sent to each server that is asked, or {@code null}
   */
  public HttpBootstrap(
      Duration requestTimeout, AllowedHosts allowedHosts, @Nullable SharedSecret secret) {
    client =
        new BootstrapClient(
            BootstrapClientConfig.withTimeout(requestTimeout)
                .withAllowedHosts(allowedHosts::allow)
                .withSecret(secret));
  }

  @Override
  public CompletionStage<List<EngineAddresses>> query(String bootstrapAddress) {
    return at(bootstrapAddress, client::query).thenApply(HttpBootstrap::engines);
  }

  @Override
  public CompletionStage<List<EngineAddresses>> look(String bootstrapAddress, Duration patience) {
    return at(bootstrapAddress, address -> client.look(address, patience))
        .thenApply(HttpBootstrap::engines);
  }

  @Override
  public CompletionStage<List<EngineAddresses>> queryOwn(String bootstrapAddress) {
    return at(bootstrapAddress, client::queryOwn).thenApply(HttpBootstrap::engines);
  }

  @Override
  public CompletionStage<RankRegistration> registerAsync(
      String bootstrapAddress, RankRegistration registration) {
    return at(
        bootstrapAddress,
        address ->
            client.registerAsync(address, request(registration)).thenApply(taken -> registration));
  }

  private static <T> CompletionStage<T> at(
      String bootstrapAddress, Function<URI, CompletionStage<T>> ask) {
    URI address;
    try {
      address = BootstrapAddress.parse(bootstrapAddress);
    } catch (BootstrapException e) {
      return CompletableFuture.failedStage(e);
    }
    return ask.apply(address);
  }

  private static List<EngineAddresses> engines(QueryAnswer answer) {
    return answer.engines().entrySet().stream()
        .map(e -> new EngineAddresses(e.getKey(), e.getValue().engineId(), e.getValue().workers()))
        .toList();
  }

  @Override
  public void register(String bootstrapAddress, RankRegistration registration) {
    try {
      client.register(BootstrapAddress.parse(bootstrapAddress), request(registration));
    } catch (BootstrapException e) {
      throw new BootstrapUnavailableException(
          "prefiller rank could not be registered, engine_id="
              + registration.engineId()
              + ": "
              + e.getMessage(),
          e);
    }
  }

  @Override
  public void deregister(String bootstrapAddress, RankRegistration registration) {
    try {
      if (!client.deregister(BootstrapAddress.parse(bootstrapAddress), request(registration))) {
        LOG.debug("bootstrap_addr={} knows no deregistration", bootstrapAddress);
      }
    } catch (BootstrapException e) {
      LOG.debug("bootstrap_addr={} was not told that the rank leaves", bootstrapAddress, e);
    }
  }

  private static RegisterRequest request(RankRegistration r) {
    return new RegisterRequest(r.engineId(), r.dpRank(), r.tpRank(), r.ppRank(), r.address());
  }

  @Override
  public void close() {
    client.close();
  }
}
