package dev.mooncake4j.core.report;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferListener;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Logs a line about the transfers of each interval in which something happened: how many, how long
 * they took, how much they moved, and what failed.
 *
 * <p>An interval begins with its first event and is logged by the first event, or call of {@link
 * #logIfDue()}, after its end; {@link #workerClosed} logs what is left. So somebody who has a timer
 * anyway calls {@link #logIfDue()} now and then, and nothing here needs a thread.
 *
 * <p>Thread-safe; the log is written outside the lock. Memory is bounded: the 90th percentile is
 * exact for up to {@value #MAX_SAMPLES} transfers in an interval and is taken from a fair sample
 * beyond. The figures are those of vLLM's own log line; MB are 2^20 bytes, and MB/s are over the
 * time spent in transfers.
 */
public final class TransferSummaryLog implements TransferListener {
  /** How long an interval is where nothing else is said. */
  public static final Duration DEFAULT_INTERVAL = Duration.ofSeconds(10);

  /** Durations remembered for the percentile; 32 KiB. */
  static final int MAX_SAMPLES = 4096;

  private static final Logger log = LoggerFactory.getLogger(TransferSummaryLog.class);

  private final NanoClock clock;
  private final long intervalNanos;
  private final Consumer<String> sink;

  private final Object lock = new Object();
  // All below: guarded by lock.
  private final long[] samples = new long[MAX_SAMPLES];
  private final SplittableRandom random = new SplittableRandom(0);
  private boolean empty = true;
  private long startNanos;
  private long transfers;
  private long sumNanos;
  private long sumBytes;
  private long sumDescriptors;
  private long failedTransfers;
  private long failedReceives;
  private long expiredRequests;

  /** Logs every ten seconds of the clock. */
  public TransferSummaryLog(NanoClock clock) {
    this(clock, DEFAULT_INTERVAL);
  }

  /**
   * Logs at an interval.
   *
   * @throws IllegalArgumentException if the interval is not more than 0
   */
  public TransferSummaryLog(NanoClock clock, Duration interval) {
    this(clock, interval, line -> log.info("transfers: {}", line));
  }

  TransferSummaryLog(NanoClock clock, Duration interval, Consumer<String> sink) {
    if (interval.isNegative() || interval.isZero()) {
      throw new IllegalArgumentException("interval=" + interval + " is not more than 0");
    }
    this.clock = clock;
    this.intervalNanos = interval.toNanos();
    this.sink = sink;
  }

  @Override
  public void transferCompleted(long durationNanos, long bytes, int descriptors) {
    synchronized (lock) {
      begin();
      int slot =
          transfers < MAX_SAMPLES ? (int) transfers : sampleSlot(random.nextLong(transfers + 1));
      if (slot >= 0) {
        samples[slot] = durationNanos;
      }
      transfers++;
      sumNanos += durationNanos;
      sumBytes += bytes;
      sumDescriptors += descriptors;
    }
    logIfDue();
  }

  // Reservoir sampling: the n-th value takes a place with probability MAX_SAMPLES / n.
  private static int sampleSlot(long drawn) {
    return drawn < MAX_SAMPLES ? (int) drawn : -1;
  }

  @Override
  public void transferFailed(int requests, String reason) {
    synchronized (lock) {
      begin();
      failedTransfers++;
    }
    logIfDue();
  }

  @Override
  public void receiveFailed(Failure failure) {
    synchronized (lock) {
      begin();
      failedReceives++;
    }
    logIfDue();
  }

  @Override
  public void requestExpired(String transferId) {
    synchronized (lock) {
      begin();
      expiredRequests++;
    }
    logIfDue();
  }

  @Override
  public void workerClosed(String engineId) {
    write(false);
  }

  /** Logs the interval if it is over and something happened in it. Returns at once. */
  public void logIfDue() {
    write(true);
  }

  private void begin() {
    if (empty) {
      empty = false;
      startNanos = clock.nanoTime();
    }
  }

  private void write(boolean onlyIfDue) {
    String line;
    synchronized (lock) {
      if (empty || (onlyIfDue && clock.nanoTime() - startNanos < intervalNanos)) {
        return;
      }
      line = line();
      empty = true;
      transfers = 0;
      sumNanos = 0;
      sumBytes = 0;
      sumDescriptors = 0;
      failedTransfers = 0;
      failedReceives = 0;
      expiredRequests = 0;
    }
    sink.accept(line);
  }

  private String line() {
    double n = Math.max(1, transfers);
    double megabytes = sumBytes / (double) (1 << 20);
    return String.format(
        Locale.ROOT,
        "completed=%d, mean_ms=%.3f, p90_ms=%.3f, mean_mb=%.3f, mb_per_s=%.3f,"
            + " mean_descriptors=%.1f, failed_transfers=%d, failed_receives=%d,"
            + " expired_requests=%d",
        transfers,
        sumNanos / n / 1e6,
        percentile90() / 1e6,
        megabytes / n,
        sumNanos > 0 ? megabytes / (sumNanos / 1e9) : 0,
        sumDescriptors / n,
        failedTransfers,
        failedReceives,
        expiredRequests);
  }

  // Between the two nearest ranks, as numpy and so vLLM do it.
  private double percentile90() {
    int count = (int) Math.min(transfers, MAX_SAMPLES);
    if (count == 0) {
      return 0;
    }
    long[] sorted = Arrays.copyOf(samples, count);
    Arrays.sort(sorted);
    double rank = 0.9 * (count - 1);
    int below = (int) rank;
    int above = Math.min(below + 1, count - 1);
    return sorted[below] + (rank - below) * (sorted[above] - sorted[below]);
  }
}
