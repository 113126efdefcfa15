package dev.mooncake4j.core.worker;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.discovery.Bootstrap;
import dev.mooncake4j.core.discovery.RankRegistration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.jspecify.annotations.Nullable;

/**
 * One prefiller rank's entry at its bootstrap server.
 *
 * <p>Registering may take minutes, with its retries. It is done on a thread of its own, so that
 * {@link #cancel} can end it and a worker closes in any state. One registration at a time; {@link
 * #cancel} from any thread.
 */
final class RankRegistrar {
  private final Bootstrap bootstrap;
  private final String address;
  private final CompletableFuture<@Nullable Void> cancelled = new CompletableFuture<>();
  private @Nullable RankRegistration registered;

  RankRegistrar(Bootstrap bootstrap, String address) {
    this.bootstrap = bootstrap;
    this.address = address;
  }

  boolean isRegistered() {
    return registered != null;
  }

  /**
   * Registers the rank, and returns when the server has taken it.
   *
   * @throws KvConnectorException if the server cannot be reached or refuses, on {@link #cancel}, or
   *     if the caller is interrupted
   */
  void register(RankRegistration rank) {
    CompletableFuture<@Nullable Void> done = new CompletableFuture<>();
    Thread thread =
        Thread.ofPlatform()
            .name("m4j-register-" + rank.engineId() + "-tp" + rank.tpRank())
            .daemon()
            .start(
                () -> {
                  try {
                    bootstrap.register(address, rank);
                    done.complete(null);
                  } catch (RuntimeException | Error e) {
                    done.completeExceptionally(e);
                  }
                });
    try {
      CompletableFuture.anyOf(done, cancelled).get();
      if (!done.isDone()) {
        thread.interrupt();
        throw new KvConnectorException("the worker was closed while its rank was registered");
      }
      registered = rank;
    } catch (InterruptedException e) {
      thread.interrupt();
      Thread.currentThread().interrupt();
      throw new KvConnectorException("interrupted while the rank was registered", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw new KvConnectorException("the rank could not be registered", e.getCause());
    }
  }

  /** Ends a registration under way, and lets none begin. Any thread; idempotent. */
  void cancel() {
    cancelled.complete(null);
  }

  /** Takes the registration back, if there is one. */
  void deregister() {
    RankRegistration rank = registered;
    if (rank != null) {
      registered = null;
      bootstrap.deregister(address, rank);
    }
  }
}
