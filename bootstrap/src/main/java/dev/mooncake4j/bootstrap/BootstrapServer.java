package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import dev.mooncake4j.bootstrap.WorkerRegistry.Occupied;
import dev.mooncake4j.bootstrap.WorkerRegistry.Outcome;
import dev.mooncake4j.bootstrap.WorkerRegistry.Refused;
import dev.mooncake4j.bootstrap.WorkerRegistry.Registered;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The bootstrap server of a prefiller: its workers register here, decoders ask here.
 *
 * <p>Over HTTP/1.1 it answers {@code POST /register} and {@code GET /query} as vLLM's
 * MooncakeConnector does, and besides {@code GET /health} and {@code POST /deregister}. One data-
 * parallel rank belongs to one engine, one rank of it to one address. A prefiller that comes back
 * under another engine id or address takes its former place in either of two ways: the former one
 * has deregistered in good order, or every former worker that is in the way is known to be gone.
 *
 * <p>It knows that by trying, while the newcomer waits for its answer: it connects to the side
 * channel of each worker that is in the way ({@code addr} as it was registered, all addresses of a
 * name) and takes one for gone if its host refuses the connection at each of them. One that accepts
 * is alive, and so is, to be safe, one that is silent for the probe's time-out (half a second),
 * cannot be reached, or whose name does not resolve: then the newcomer gets vLLM's 400, after at
 * most six times that time-out for one round of probes.
 *
 * <p>Thread-safe. It has one thread of its own, and some more while it tries former workers.
 * Without {@linkplain BootstrapServerConfig#secret a shared secret} there is no access control, as
 * in vLLM: bind it to a network that only the cluster reaches.
 */
public final class BootstrapServer implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(BootstrapServer.class);

  /** Rounds of the probe's time-out before what is not known to be gone counts as alive. */
  private static final int PROBE_ROUNDS = 6;

  private final WorkerRegistry registry = new WorkerRegistry();
  private final HttpServer http;
  private final WorkerProber prober;
  private final Registrar registrar;
  private final Duration registerLimit;
  private final AtomicBoolean closed = new AtomicBoolean();

  private BootstrapServer(BootstrapServerConfig config) {
    Duration probeDeadline = config.probeTimeout().multipliedBy(PROBE_ROUNDS);
    http = new HttpServer(config);
    prober = new WorkerProber(config.probeTimeout());
    registrar = new Registrar(registry, prober::allGone, http.timer(), probeDeadline);
    // The registrar bounds itself; this is for a thread that is starved.
    registerLimit = probeDeadline.multipliedBy(Registrar.MAX_ROUNDS).plusSeconds(5);
  }

  /**
   * Starts a server. Its port is bound and answers when this returns.
   *
   * @throws BootstrapException with {@link Reason#BIND}, naming the address, if it is in use or not
   *     this host's; nothing stays behind then
   */
  public static BootstrapServer start(BootstrapServerConfig config) {
    return start(new BootstrapServer(config), config);
  }

  /**
   * As {@link #start(BootstrapServerConfig)}, of a prefiller that will register a worker at its own
   * server: its data-parallel rank is kept for it until then. Workers of the engine that was there
   * before the process was restarted may live on elsewhere and register again, and would be in its
   * way.
   *
   * @param dpRank the rank, at least 0
   * @param engineId the engine that it is kept for
   */
  public static BootstrapServer start(BootstrapServerConfig config, int dpRank, String engineId) {
    BootstrapServer server = new BootstrapServer(config);
    server.registry.keep(dpRank, engineId);
    return start(server, config);
  }

  private static BootstrapServer start(BootstrapServer server, BootstrapServerConfig config) {
    server.http.bind(new Router(server.registry, server.registrar, config.secret()));
    log.info("bootstrap server listening: host={}, port={}", config.host(), server.port());
    return server;
  }

  /** The port that is bound: the real one where the configuration says 0. */
  public int port() {
    return http.port();
  }

  /**
   * Registers a worker from within this process, by the same rules as the endpoint.
   *
   * <p>Returns at once, unless a former worker is in the way: that takes until it is known whether
   * that one is gone, at most some seconds.
   *
   * @throws BootstrapException with {@link Reason#REJECTED} and the endpoint's status and text
   */
  public void register(RegisterRequest worker) {
    checkOpen();
    CompletableFuture<Outcome> pending = registrar.register(worker);
    Outcome outcome;
    try {
      outcome = pending.get(registerLimit.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BootstrapException(
          Reason.INTERRUPTED, "interrupted while registering " + worker, null, 0, 0, e);
    } catch (ExecutionException | TimeoutException e) {
      throw new BootstrapException(
          Reason.UNREACHABLE, "cannot tell whether former workers are gone", null, 0, 0, e);
    }
    switch (outcome) {
      case Registered r -> {}
      case Refused refused -> throw rejected(refused.status(), refused.detail());
      case Occupied occupied -> throw rejected(400, occupied.detail());
    }
  }

  private BootstrapException rejected(int status, String detail) {
    checkOpen();
    return new BootstrapException(
        Reason.REJECTED,
        "register refused: status=" + status + ", detail=" + ErrorText.printable(detail, 2048),
        null,
        1,
        status,
        null);
  }

  /**
   * Removes a worker, if it is registered with just this address; otherwise does nothing. Returns
   * at once.
   *
   * @return whether it was there
   */
  public boolean deregister(RegisterRequest worker) {
    return registry.deregister(
        worker.engineId(), worker.dpRank(), worker.tpRank(), worker.ppRank(), worker.addr());
  }

  /**
   * Takes no more workers: who registers gets 503, and may try again when another server is in this
   * one's place. Decoders are answered on, so that requests under way find their prefiller, and
   * workers may take their registration back. The first step of an end in good order; {@link
   * #close} is the last. Returns at once; idempotent.
   */
  public void drain() {
    if (registry.drain()) {
      log.info("bootstrap server draining, no more workers are taken: port={}", port());
    }
  }

  /** Whether {@link #drain} was called. {@code GET /health} says so too. */
  public boolean isDraining() {
    return registry.isDraining();
  }

  /** Who is registered now; never blocks. */
  public QueryAnswer query() {
    return registry.snapshot().answer();
  }

  /** Bytes of network buffers in use, for tests. */
  long bufferBytesInUse() {
    return http.bufferBytesInUse();
  }

  /** Errors that no client should be able to cause, for tests. */
  long unexpectedErrors() {
    return http.unexpectedErrors();
  }

  private void checkOpen() {
    if (closed.get()) {
      throw BootstrapException.of(
          Reason.CLOSED, "the bootstrap server is closed: start another one");
    }
  }

  /**
   * Closes the port and all connections; the port can be bound again at once. Waits at most some
   * seconds; may be called again, and from any thread.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      prober.close();
      http.close();
      log.info("bootstrap server closed: port={}", port());
    }
  }
}
