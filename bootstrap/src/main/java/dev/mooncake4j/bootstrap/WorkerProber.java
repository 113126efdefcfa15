package dev.mooncake4j.bootstrap;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds out whether workers are gone, by connecting to their side channels.
 *
 * <p>Gone means that the worker's host itself says so: it refuses the connection. Silence, an
 * unreachable network, a name that does not resolve or an address of another form prove nothing.
 * Only a TCP connection is opened and closed again; not a byte is sent.
 *
 * <p>Thread-safe. Connecting and looking up names blocks, so it is done on threads of its own,
 * which exist only while there is something to do.
 */
final class WorkerProber implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(WorkerProber.class);

  /** Enough to probe a large engine in a few rounds of the time-out. */
  private static final int THREADS = 8;

  /** Probes beyond these are not made, and prove nothing. */
  private static final int MAX_QUEUED = 4096;

  private static final AtomicInteger names = new AtomicInteger();

  private final int timeoutMillis;
  private final ThreadPoolExecutor threads;
  private final Set<Round> open = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  WorkerProber(Duration timeout) {
    this.timeoutMillis = Math.toIntExact(timeout.toMillis());
    this.threads =
        new ThreadPoolExecutor(
            THREADS,
            THREADS,
            1,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(MAX_QUEUED),
            task -> {
              Thread thread = new Thread(task, "m4j-bootstrap-probe-" + names.incrementAndGet());
              thread.setDaemon(true);
              return thread;
            });
    threads.allowCoreThreadTimeOut(true);
  }

  /**
   * Whether every one of these workers is gone.
   *
   * @return completes, on a thread of the prober's, with {@code false} as soon as one is not known
   *     to be gone. The caller bounds it in time, by completing it: a name server may keep it
   *     waiting
   */
  CompletableFuture<Boolean> allGone(List<String> addrs) {
    Round round = new Round(addrs.size());
    open.add(round);
    if (closed) {
      // Looked at after the round was added: if it is not seen here, close() has seen the round.
      round.verdict.complete(false);
    }
    for (String addr : addrs) {
      try {
        threads.execute(() -> round.probe(addr));
      } catch (RejectedExecutionException e) {
        log.debug("not probed, too many at once or closed: addr={}", addr);
        round.verdict.complete(false);
        open.remove(round);
        break;
      }
    }
    return round.verdict;
  }

  /** The workers that are asked about at once. */
  private final class Round {
    private final CompletableFuture<Boolean> verdict = new CompletableFuture<>();
    private final AtomicInteger left;

    Round(int size) {
      left = new AtomicInteger(size);
    }

    void probe(String addr) {
      if (!verdict.isDone() && !isGone(addr)) {
        verdict.complete(false);
      }
      if (left.decrementAndGet() == 0) {
        // Means nothing where one was not gone.
        verdict.complete(true);
        open.remove(this);
      }
    }
  }

  private boolean isGone(String addr) {
    HostPort target = HostPort.parseTcp(addr);
    if (target == null) {
      return false;
    }
    try {
      for (InetAddress address : InetAddress.getAllByName(target.host())) {
        if (!refuses(new InetSocketAddress(address, target.port()))) {
          return false;
        }
      }
      return true;
    } catch (IOException e) {
      log.debug("probe proves nothing: addr={}", addr, e);
      return false;
    }
  }

  private boolean refuses(InetSocketAddress address) throws IOException {
    try (Socket socket = new Socket()) {
      socket.connect(address, timeoutMillis);
      return false;
    } catch (ConnectException e) {
      // The JDK throws this for a refusal, and for the kernel's own time-out, which takes minutes.
      return true;
    }
  }

  /**
   * Ends the threads: probes that have not begun are dropped, one under way ends by itself. What is
   * not known by now is not known to be gone.
   */
  @Override
  public void close() {
    closed = true;
    threads.shutdownNow();
    for (Round round : open) {
      round.verdict.complete(false);
    }
    open.clear();
  }
}
