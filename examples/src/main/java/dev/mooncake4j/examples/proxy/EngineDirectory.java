package dev.mooncake4j.examples.proxy;

import dev.mooncake4j.bootstrap.BootstrapClient;
import dev.mooncake4j.bootstrap.BootstrapClientConfig;
import dev.mooncake4j.bootstrap.QueryAnswer;
import dev.mooncake4j.connector.SharedSecret;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which engines each prefiller has, by its bootstrap server.
 *
 * <p>Each is asked again and again in the background: a request never waits for a server that does
 * not answer, a rank that registers late is found, and one that restarts under a new engine id is
 * used under it soon. A prefiller whose bootstrap server does not answer gets no requests: its
 * decoders would have to ask there too.
 */
final class EngineDirectory implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(EngineDirectory.class);

  private static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(5);

  /** Three attempts of the client's, and its pauses. */
  private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(20);

  private final BootstrapClient client;
  private final Duration interval;
  private final List<Entry> entries = new ArrayList<>();
  private final List<Thread> watchers = new ArrayList<>();
  private volatile boolean closed;

  /** What is known of one prefiller: its engines, or why there are none. */
  private record Known(Map<Integer, String> engines, String problem) {}

  private static final class Entry {
    final Prefiller prefiller;
    final Semaphore wake = new Semaphore(0);
    final CountDownLatch asked = new CountDownLatch(1);
    final Outage outage = new Outage(System::nanoTime);
    volatile Known known = new Known(Map.of(), "not asked yet");

    Entry(Prefiller prefiller) {
      this.prefiller = prefiller;
    }
  }

  /**
   * Begins to ask the prefillers' bootstrap servers, each at this interval.
   *
   * @param secret what they ask for, or {@code null}
   */
  EngineDirectory(List<Prefiller> prefillers, Duration interval, @Nullable SharedSecret secret) {
    this.interval = interval;
    this.client =
        new BootstrapClient(BootstrapClientConfig.withTimeout(REQUEST_TIMEOUT).withSecret(secret));
    for (Prefiller prefiller : prefillers) {
      Entry entry = new Entry(prefiller);
      entries.add(entry);
      watchers.add(
          Thread.ofVirtual().name("proxy-bootstrap-" + prefiller.url()).start(() -> watch(entry)));
    }
  }

  private void watch(Entry entry) {
    try {
      while (true) {
        ask(entry);
        entry.asked.countDown();
        if (entry.wake.tryAcquire(interval.toNanos(), TimeUnit.NANOSECONDS)) {
          entry.wake.drainPermits();
        }
      }
    } catch (InterruptedException e) {
      // Closed.
      Thread.currentThread().interrupt();
    }
  }

  private void ask(Entry entry) throws InterruptedException {
    Known now;
    try {
      QueryAnswer answer =
          client
              .query(entry.prefiller.bootstrap())
              .toCompletableFuture()
              .get(ANSWER_TIMEOUT.toNanos(), TimeUnit.NANOSECONDS);
      Map<Integer, String> engines = new TreeMap<>();
      answer.engines().forEach((dpRank, engine) -> engines.put(dpRank, engine.engineId()));
      now = new Known(engines, "no engine has registered yet");
    } catch (ExecutionException e) {
      Throwable cause = e.getCause();
      now = new Known(Map.of(), String.valueOf(cause == null ? e : cause.getMessage()));
    } catch (TimeoutException e) {
      now = new Known(Map.of(), "no answer within " + ANSWER_TIMEOUT.toSeconds() + " s");
    }
    if (closed) {
      return;
    }
    Known before = entry.known;
    entry.known = now;
    if (!now.engines().equals(before.engines())) {
      LOG.info("prefill={} engines={}", entry.prefiller.url(), now.engines());
    }
    Outage.Notice notice = entry.outage.asked(now.engines().isEmpty() ? now.problem() : null);
    if (notice != null) {
      LOG.atLevel(notice.level()).log("prefill={} {}", entry.prefiller.url(), notice.text());
    }
  }

  /** Waits until each bootstrap server has answered, or not, once; at most this long. */
  void awaitFirst(Duration timeout) throws InterruptedException {
    long end = System.nanoTime() + timeout.toNanos();
    for (Entry entry : entries) {
      if (!entry.asked.await(end - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        return;
      }
    }
  }

  /** All ranks of all prefillers, in order; empty where none is known. */
  List<PrefillTarget> targets() {
    List<PrefillTarget> targets = new ArrayList<>();
    for (Entry entry : entries) {
      entry
          .known
          .engines()
          .forEach(
              (dpRank, engineId) ->
                  targets.add(new PrefillTarget(entry.prefiller, dpRank, engineId)));
    }
    return targets;
  }

  /** Why prefillers are left out, one text each. */
  List<String> problems() {
    List<String> problems = new ArrayList<>();
    for (Entry entry : entries) {
      Known known = entry.known;
      if (known.engines().isEmpty()) {
        problems.add("prefill=" + entry.prefiller.url() + ": " + known.problem());
      }
    }
    return problems;
  }

  /** A request has failed there: its bootstrap server is asked now, not at the next turn. */
  void suspect(Prefiller prefiller) {
    for (Entry entry : entries) {
      if (entry.prefiller.equals(prefiller)) {
        entry.wake.release();
      }
    }
  }

  @Override
  public void close() {
    closed = true;
    watchers.forEach(Thread::interrupt);
    client.close();
  }
}
