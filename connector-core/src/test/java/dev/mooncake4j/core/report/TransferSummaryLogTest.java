package dev.mooncake4j.core.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.core.config.CapturedLog;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class TransferSummaryLogTest {
  private static final Failure FAILURE =
      new Failure("r", "t", FailureStage.TRANSFER, "because", null, BlockIds.of(1), true);

  // Near the end of the clock's range: intervals are differences, never compared as they are.
  private long now = Long.MAX_VALUE - 5;
  private final List<String> lines = new ArrayList<>();
  private final TransferSummaryLog summary =
      new TransferSummaryLog(() -> now, TransferSummaryLog.DEFAULT_INTERVAL, lines::add);

  @Test
  void theFiguresAreThoseThatVllmLogs() {
    // The same five transfers and failures, put to vLLM 0.33.0's own statistics, give these.
    summary.transferCompleted(4_000_000, 1500, 3);
    summary.transferCompleted(5_000_000, 2048, 10);
    summary.transferCompleted(30_000_000, 1L << 24, 120);
    summary.transferCompleted(750_000_000, 5_000_000_000L, 20_000);
    summary.transferCompleted(7_500_000_000L, 1L << 34, 60_000);
    summary.transferFailed(1, "a");
    summary.transferFailed(9, "b");
    summary.receiveFailed(FAILURE);
    summary.receiveFailed(FAILURE);
    summary.receiveFailed(FAILURE);
    summary.requestExpired("t");
    assertThat(lines).isEmpty();

    pass(Duration.ofSeconds(10));
    summary.logIfDue();

    assertThat(lines)
        .containsExactly(
            "completed=5, mean_ms=1657.800, p90_ms=4800.000, mean_mb=4233.675, mb_per_s=2553.791,"
                + " mean_descriptors=16026.6, failed_transfers=2, failed_receives=3,"
                + " expired_requests=1");
  }

  @Test
  void nothingIsLoggedWhenNothingHappened() {
    for (int i = 0; i < 10; i++) {
      pass(Duration.ofSeconds(20));
      summary.logIfDue();
    }
    summary.workerClosed("e");

    assertThat(lines).isEmpty();
  }

  @Test
  void anIntervalBeginsWithItsFirstEventAndStartsFromZero() {
    pass(Duration.ofHours(1));
    summary.transferFailed(1, "x");
    pass(Duration.ofSeconds(9));
    summary.transferFailed(1, "x");
    assertThat(lines).isEmpty();
    pass(Duration.ofSeconds(1));
    summary.requestExpired("t");

    assertThat(lines)
        .singleElement()
        .asString()
        .contains("failed_transfers=2", "expired_requests=1");

    pass(Duration.ofHours(1));
    summary.logIfDue();
    assertThat(lines).hasSize(1);
    summary.receiveFailed(FAILURE);
    pass(Duration.ofSeconds(10));
    summary.logIfDue();
    assertThat(lines.getLast())
        .startsWith("completed=0, mean_ms=0.000, p90_ms=0.000, mean_mb=0.000, mb_per_s=0.000")
        .endsWith("failed_transfers=0, failed_receives=1, expired_requests=0");
  }

  @Test
  void aClosingWorkerLogsWhatIsLeft() {
    summary.transferCompleted(1_000_000, 1 << 20, 1);
    summary.workerClosed("e");
    summary.workerClosed("e");

    assertThat(lines)
        .singleElement()
        .asString()
        .startsWith("completed=1, mean_ms=1.000, p90_ms=1.000, mean_mb=1.000, mb_per_s=1000.000");
  }

  @Test
  void aTransferThatTookNoTimeDividesNothing() {
    summary.transferCompleted(0, 0, 0);
    summary.workerClosed("e");

    assertThat(lines).singleElement().asString().contains("mb_per_s=0.000");
  }

  @Test
  void thePercentileOfAManyIsThatOfAFairSample() {
    int count = 40 * TransferSummaryLog.MAX_SAMPLES;
    for (int i = 0; i < count; i++) {
      // Rising: a sample of the first or the last ones alone would be far off.
      summary.transferCompleted(i * 1_000L, 1, 1);
    }
    summary.workerClosed("e");

    String line = lines.getFirst();
    double p90 =
        Double.parseDouble(line.replaceAll(".*p90_ms=([0-9.]+),.*", "$1")) * 1e6 / (count * 1e3);
    assertThat(line).startsWith("completed=" + count);
    assertThat(p90).isBetween(0.87, 0.93);
  }

  @Test
  void thePercentileIsExactUpToTheSampleSize() {
    for (int i = TransferSummaryLog.MAX_SAMPLES; i >= 1; i--) {
      summary.transferCompleted(i * 1_000_000L, 1, 1);
    }
    summary.workerClosed("e");

    double expected = 1 + 0.9 * (TransferSummaryLog.MAX_SAMPLES - 1);
    assertThat(lines.getFirst()).contains(String.format(Locale.ROOT, "p90_ms=%.3f,", expected));
  }

  @Test
  void manyThreadsLoseNothing() throws Exception {
    int threads = 4;
    int each = 5_000;
    CountDownLatch done = new CountDownLatch(threads);
    try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
      for (int t = 0; t < threads; t++) {
        pool.execute(
            () -> {
              for (int i = 0; i < each; i++) {
                summary.transferCompleted(1, 1, 1);
              }
              done.countDown();
            });
      }
      assertThat(done.await(60, TimeUnit.SECONDS)).isTrue();
    }
    summary.workerClosed("e");

    assertThat(lines).singleElement().asString().startsWith("completed=" + threads * each + ",");
  }

  @Test
  void itGoesToTheLogAtInfo() {
    try (CapturedLog log = new CapturedLog()) {
      TransferSummaryLog real = new TransferSummaryLog(NanoClock.SYSTEM);
      real.transferCompleted(1, 1, 1);
      real.workerClosed("e");

      assertThat(log.lines("INFO")).singleElement().asString().contains("transfers: completed=1");
    }
  }

  @Test
  void anIntervalOfNothingIsRefused() {
    assertThatThrownBy(() -> new TransferSummaryLog(NanoClock.SYSTEM, Duration.ZERO))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("interval=PT0S");
  }

  private void pass(Duration time) {
    now += time.toNanos();
  }
}
