package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import dev.mooncake4j.bootstrap.Exchange.Question;
import dev.mooncake4j.connector.SharedSecret;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tools.jackson.databind.node.JsonNodeFactory;

/**
 * Registers a prefiller's workers with a bootstrap server, ours or vLLM's, and asks one on behalf
 * of a decoder.
 *
 * <p>Speaks HTTP/1.1 with a {@code Content-Length}, follows no redirect, and uses no proxy: the
 * servers are the cluster's own. A question that finds no answer (refused, reset, late) is asked
 * three times in all; an answer, also one that says no, is final.
 *
 * <p>Thread-safe; one client serves a process. Failures are {@link BootstrapException}s.
 */
public final class BootstrapClient implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(BootstrapClient.class);

  private static final int ATTEMPTS = 3;
  private static final Duration FIRST_BACK_OFF = Duration.ofSeconds(1);
  private static final Duration MOST_BACK_OFF = Duration.ofSeconds(10);
  private static final Duration QUERY_PAUSE = Duration.ofMillis(100);

  /** A farewell holds up a shutdown, and the other side copes without it. */
  private static final Duration DEREGISTER_TIMEOUT = Duration.ofSeconds(1);

  /** Looking up a name blocks a thread: one slow name server must not hold up the others. */
  private static final int THREADS = 8;

  private static final long CLOSE_MILLIS = 1000;

  private final BootstrapClientConfig config;
  private final ThreadPoolExecutor executor;
  private final @Nullable ScheduledThreadPoolExecutor timer;
  private final Delayer delayer;
  private final HttpClient http;
  private final Set<Exchange<?>> open = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  /** A client with threads of its own; {@link #close()} ends them. */
  public BootstrapClient(BootstrapClientConfig config) {
    this.config = config;
    AtomicInteger number = new AtomicInteger();
    executor =
        new ThreadPoolExecutor(
            THREADS,
            THREADS,
            10,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            daemons(() -> "m4j-bootstrap-client-" + number.incrementAndGet()));
    executor.allowCoreThreadTimeOut(true);
    Delayer given = config.delayer();
    if (given == null) {
      ScheduledThreadPoolExecutor own =
          new ScheduledThreadPoolExecutor(1, daemons(() -> "m4j-bootstrap-client-timer"));
      own.setRemoveOnCancelPolicy(true);
      timer = own;
      delayer = onTimer(own);
    } else {
      timer = null;
      delayer = given;
    }
    http =
        HttpClient.newBuilder()
            // The default offers h2c with every request, at which some servers lose the body.
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            .proxy(ProxySelector.of(null))
            .connectTimeout(config.requestTimeout())
            .executor(executor)
            .build();
  }

  /**
   * Registers a worker, and returns when the server has taken it.
   *
   * <p>Blocks: at most three times the request time-out and the pauses of 1 s and 2 s in between.
   * May be called from a virtual thread; interruptible.
   *
   * @param server as {@link BootstrapAddress#of} makes it; the allow-list is not asked, this
   *     address is the configuration's
   * @throws BootstrapException with {@link Reason#UNREACHABLE} when the attempts are used up,
   *     {@link Reason#REJECTED} and the server's text when it refuses, or {@link
   *     Reason#INTERRUPTED}
   */
  public void register(URI server, RegisterRequest worker) {
    await(beginRegister(server, worker));
  }

  /**
   * As {@link #register}, and returns at once; no thread waits meanwhile.
   *
   * @return completes on a thread of the client's, which must not be blocked, with the worker;
   *     fails with a {@link BootstrapException} as {@link #register} does
   */
  public CompletionStage<RegisterRequest> registerAsync(URI server, RegisterRequest worker) {
    try {
      return beginRegister(server, worker).result().minimalCompletionStage();
    } catch (BootstrapException e) {
      return CompletableFuture.failedStage(e);
    }
  }

  private Exchange<RegisterRequest> beginRegister(URI server, RegisterRequest worker) {
    return begin(
        new Question<>(
            "register",
            post(BootstrapAddress.check(server), "/register", worker),
            body -> worker,
            ATTEMPTS,
            config.requestTimeout(),
            BootstrapClient::backOff));
  }

  /**
   * Asks who has registered. Returns at once; no thread waits for the answer.
   *
   * @param bootstrapAddr the server's address, as {@link BootstrapAddress#parse} reads it from
   *     {@code remote_bootstrap_addr}
   * @return completes on a thread of the client's, which must not be blocked; fails with a {@link
   *     BootstrapException}: {@link Reason#ADDRESS} for an address that may not be asked, {@link
   *     Reason#UNREACHABLE} when three attempts 100 ms apart brought no answer, {@link
   *     Reason#REJECTED}, {@link Reason#MALFORMED} or {@link Reason#CLOSED}
   */
  public CompletionStage<QueryAnswer> query(URI bootstrapAddr) {
    return query(bootstrapAddr, ATTEMPTS, config.requestTimeout());
  }

  /**
   * Asks who has registered, as {@link #query(URI)} does, but once: whether a server that has
   * answered before still does. Returns at once.
   *
   * @param timeout for the one attempt; more than 0
   */
  public CompletionStage<QueryAnswer> look(URI bootstrapAddr, Duration timeout) {
    return query(bootstrapAddr, 1, timeout);
  }

  private CompletionStage<QueryAnswer> query(URI bootstrapAddr, int attempts, Duration timeout) {
    URI server;
    try {
      server = BootstrapAddress.check(bootstrapAddr);
      checkAllowed(server);
    } catch (BootstrapException e) {
      return CompletableFuture.failedStage(e);
    }
    return ask(server, attempts, timeout);
  }

  /**
   * As {@link #query}, of a server that this process's own configuration names: the allow-list is
   * not asked.
   */
  public CompletionStage<QueryAnswer> queryOwn(URI server) {
    try {
      return ask(BootstrapAddress.check(server), ATTEMPTS, config.requestTimeout());
    } catch (BootstrapException e) {
      return CompletableFuture.failedStage(e);
    }
  }

  private CompletionStage<QueryAnswer> ask(URI server, int attempts, Duration timeout) {
    HttpRequest request = request(server.resolve("/query")).GET().build();
    return begin(
            new Question<>(
                "query", request, QueryJson::read, attempts, timeout, attempt -> QUERY_PAUSE))
        .result()
        .minimalCompletionStage();
  }

  /**
   * Says that a worker leaves, so that another engine may take its place at once. One attempt,
   * which takes at most a second: the server finds out by itself in the end.
   *
   * @return whether the server has heard it; {@code false} with vLLM's, which does not know this
   */
  public boolean deregister(URI server, RegisterRequest worker) {
    Duration timeout =
        config.requestTimeout().compareTo(DEREGISTER_TIMEOUT) < 0
            ? config.requestTimeout()
            : DEREGISTER_TIMEOUT;
    try {
      HttpRequest request = post(BootstrapAddress.check(server), "/deregister", worker);
      await(
          begin(
              new Question<>(
                  "deregister", request, body -> true, 1, timeout, BootstrapClient::backOff)));
      return true;
    } catch (BootstrapException e) {
      log.debug("not deregistered: worker={}", worker, e);
      return false;
    }
  }

  private void checkAllowed(URI server) {
    String host = BootstrapAddress.hostOf(server);
    if (!config.allowedHosts().test(host)) {
      throw new BootstrapException(
          Reason.ADDRESS,
          "bootstrap_addr="
              + server
              + " is refused: host="
              + host
              + " is not on the list of allowed hosts; add it to bootstrap_allowed_hosts if it is one of the"
              + " cluster's",
          server.toString(),
          0,
          0,
          null);
    }
  }

  private HttpRequest.Builder request(URI target) {
    HttpRequest.Builder request = HttpRequest.newBuilder(target);
    SharedSecret secret = config.secret();
    return secret == null ? request : request.header("Authorization", Bearer.header(secret));
  }

  private HttpRequest post(URI server, String path, RegisterRequest worker) {
    byte[] body =
        Json.bytes(
            JsonNodeFactory.instance
                .objectNode()
                .put("engine_id", worker.engineId())
                .put("dp_rank", worker.dpRank())
                .put("tp_rank", worker.tpRank())
                .put("pp_rank", worker.ppRank())
                .put("addr", worker.addr()));
    return request(server.resolve(path))
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofByteArray(body))
        .build();
  }

  /** The pause before an attempt: 1 s before the second, doubling, at most 10 s. */
  static Duration backOff(int attempt) {
    Duration pause = FIRST_BACK_OFF.multipliedBy(1L << Math.min(attempt - 2, 30));
    return pause.compareTo(MOST_BACK_OFF) > 0 ? MOST_BACK_OFF : pause;
  }

  private <T> Exchange<T> begin(Question<T> question) {
    Exchange<T> exchange = new Exchange<>(question, http, executor, delayer, config.nanoTime());
    open.add(exchange);
    Exchange.whenDone(exchange.result(), (answer, failure) -> open.remove(exchange));
    if (closed) {
      // Looked at after the exchange was added: if it is not seen here, close() has seen it.
      exchange.fail(closedException());
    } else {
      exchange.start();
    }
    return exchange;
  }

  private static void await(Exchange<?> exchange) {
    try {
      // Bounded by the exchange itself: every attempt has its time-out.
      exchange.result().get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      BootstrapException told =
          new BootstrapException(
              Reason.INTERRUPTED, "interrupted while asking the bootstrap server", null, 0, 0, e);
      exchange.fail(told);
      throw told;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof BootstrapException told) {
        throw new BootstrapException(
            told.reason(),
            String.valueOf(told.getMessage()),
            told.url(),
            told.attempts(),
            told.status(),
            told.getCause());
      }
      throw new IllegalStateException("unexpected failure of an exchange", e);
    }
  }

  private static BootstrapException closedException() {
    return BootstrapException.of(Reason.CLOSED, "the bootstrap client is closed");
  }

  /** Fails what is under way, and ends the threads; at most some seconds. Idempotent. */
  @Override
  public void close() {
    closed = true;
    for (Exchange<?> exchange : open) {
      exchange.fail(closedException());
    }
    http.shutdownNow();
    ScheduledThreadPoolExecutor own = timer;
    if (own != null) {
      own.shutdownNow();
    }
    try {
      boolean ended = http.awaitTermination(Duration.ofMillis(CLOSE_MILLIS));
      // Not before: the HTTP client needs its threads to end.
      executor.shutdownNow();
      ended &= executor.awaitTermination(CLOSE_MILLIS, TimeUnit.MILLISECONDS);
      if (!ended) {
        log.debug("threads of the bootstrap client are still busy, and end by themselves");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      executor.shutdownNow();
    }
  }

  private static Delayer onTimer(ScheduledThreadPoolExecutor timer) {
    return (delay, task) -> {
      ScheduledFuture<?> scheduled = timer.schedule(task, delay.toMillis(), TimeUnit.MILLISECONDS);
      return () -> scheduled.cancel(false);
    };
  }

  private static ThreadFactory daemons(Supplier<String> name) {
    return task -> {
      Thread thread = new Thread(task, name.get());
      thread.setDaemon(true);
      return thread;
    };
  }
}
