package dev.mooncake4j.core.discovery;

import dev.mooncake4j.bootstrap.BootstrapAddress;
import dev.mooncake4j.bootstrap.BootstrapClient;
import dev.mooncake4j.bootstrap.BootstrapClientConfig;
import dev.mooncake4j.bootstrap.BootstrapException;
import dev.mooncake4j.bootstrap.QueryAnswer;
import dev.mooncake4j.bootstrap.RegisterRequest;
import dev.mooncake4j.connector.BootstrapUnavailableException;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The bootstrap client over HTTP. */
public final class HttpBootstrap implements Bootstrap {
  private static final Logger LOG = LoggerFactory.getLogger(HttpBootstrap.class);

  private final BootstrapClient client;

  /** A client whose requests may each take this long, and that asks at these hosts alone. */
  public HttpBootstrap(Duration requestTimeout, AllowedHosts allowedHosts) {
    client =
        new BootstrapClient(
            BootstrapClientConfig.withTimeout(requestTimeout)
                .withAllowedHosts(allowedHosts::allow));
  }

  @Override
  public CompletionStage<List<EngineAddresses>> query(String bootstrapAddress) {
    return ask(bootstrapAddress, client::query);
  }

  @Override
  public CompletionStage<List<EngineAddresses>> look(String bootstrapAddress, Duration patience) {
    return ask(bootstrapAddress, address -> client.look(address, patience));
  }

  private static CompletionStage<List<EngineAddresses>> ask(
      String bootstrapAddress, Function<URI, CompletionStage<QueryAnswer>> question) {
    URI address;
    try {
      address = BootstrapAddress.parse(bootstrapAddress);
    } catch (BootstrapException e) {
      return CompletableFuture.failedStage(e);
    }
    return question.apply(address).thenApply(HttpBootstrap::engines);
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
