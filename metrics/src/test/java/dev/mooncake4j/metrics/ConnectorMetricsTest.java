package dev.mooncake4j.metrics;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.WorkerStats;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.composite.CompositeMeterRegistry;
import io.micrometer.core.instrument.cumulative.CumulativeCounter;
import io.micrometer.core.instrument.cumulative.CumulativeDistributionSummary;
import io.micrometer.core.instrument.distribution.DistributionStatisticConfig;
import io.micrometer.core.instrument.distribution.NoopHistogram;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

class ConnectorMetricsTest {
  private static final Failure FAILURE =
      new Failure("r", "t", FailureStage.TRANSFER, "because", null, BlockIds.of(1), true);

  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);

  @Test
  void everyMeterIsThereAtZeroBeforeItsFirstUse() {
    try (ConnectorMetrics metrics = new ConnectorMetrics("m/x")) {
      metrics.bindTo(registry);

      assertThat(registry.scrape().lines())
          .containsExactlyElementsOf(Scrape.resource("scrape-at-zero.txt").lines().toList());
    }
  }

  @Test
  void theWholeScrapeAfterRecording() {
    try (ConnectorMetrics metrics = new ConnectorMetrics("m/x", "3")) {
      metrics.bindTo(registry);
      metrics.watch(() -> new WorkerStats(1, 2, 3, 40, 50, 60, 7, 1L << 40, 8, 90));
      metrics.transferCompleted(30_000_000, 1L << 24, 120);
      metrics.transferCompleted(7_500_000_000L, 1L << 34, 60_000);
      metrics.transferFailed(17, "link down");
      metrics.receiveFailed(FAILURE);
      metrics.receiveFailed(FAILURE);
      metrics.requestExpired("t");
      metrics.prefillWaited(0);
      metrics.prefillWaited(31_000_000_000L);
      metrics.leasesRenewed(5);
      metrics.receiveCompleted(2_000_000_000L, 17);

      assertThat(registry.scrape().lines())
          .containsExactlyElementsOf(Scrape.resource("scrape-recorded.txt").lines().toList());
    }
  }

  @Test
  void theScrapeHoldsEverySeriesThatVllmScrapes() {
    // The resource is what vLLM 0.33.0's own metrics class gives for the same events.
    List<Scrape.Sample> vllm = Scrape.samples(Scrape.resource("vllm-scrape.txt"));
    try (ConnectorMetrics metrics = new ConnectorMetrics("Qwen/Qwen2.5-7B-Instruct")) {
      metrics.bindTo(registry);
      metrics.transferCompleted(4_000_000, 1500, 3);
      metrics.transferCompleted(5_000_000, 2048, 10);
      metrics.transferCompleted(30_000_000, 1L << 24, 120);
      metrics.transferCompleted(750_000_000, 5_000_000_000L, 20_000);
      metrics.transferCompleted(7_500_000_000L, 1L << 34, 60_000);
      metrics.transferFailed(1, "a");
      metrics.transferFailed(5, "b");
      metrics.receiveFailed(FAILURE);
      metrics.receiveFailed(FAILURE);
      metrics.receiveFailed(FAILURE);
      metrics.requestExpired("t");

      String scrape = registry.scrape();
      List<Scrape.Sample> extra = new ArrayList<>(Scrape.samples(scrape));
      assertThat(vllm).hasSize(50);
      assertThat(extra).containsAll(vllm);
      extra.removeAll(vllm);
      assertThat(extra)
          .extracting(Scrape.Sample::name)
          .filteredOn(name -> !name.startsWith("mooncake4j_"))
          .containsExactlyInAnyOrder(
              "vllm:mooncake_xfer_time_seconds_max",
              "vllm:mooncake_bytes_transferred_max",
              "vllm:mooncake_num_descriptors_max");
      assertThat(types(scrape)).containsAll(types(Scrape.resource("vllm-scrape.txt")));
    }
  }

  @Test
  void connectorsWithOtherLabelsShareARegistry() {
    ConnectorMetrics first = new ConnectorMetrics("m/x", "0");
    ConnectorMetrics second = new ConnectorMetrics("m/x", "1");
    first.bindTo(registry);
    second.bindTo(registry);
    second.transferFailed(1, "x");

    assertThat(failedTransfers("0")).isZero();
    assertThat(failedTransfers("1")).isEqualTo(1);

    first.close();
    assertThat(registry.scrape()).doesNotContain("engine=\"0\"").contains("engine=\"1\"");
    second.transferFailed(1, "x");
    assertThat(failedTransfers("1")).isEqualTo(2);
    second.close();
    assertThat(registry.getMeters()).isEmpty();
    assertThat(registry.scrape().strip()).isEmpty();
  }

  @Test
  void connectorsWithTheSameLabelsShareTheMetersAndTheLastRemovesThem() {
    ConnectorMetrics first = new ConnectorMetrics("m/x");
    ConnectorMetrics second = new ConnectorMetrics("m/x");
    first.bindTo(registry);
    second.bindTo(registry);
    first.watch(() -> new WorkerStats(1, 0, 0, 0, 0, 0, 0, 100));
    second.watch(() -> new WorkerStats(10, 0, 0, 0, 0, 0, 0, 1000));
    first.transferFailed(1, "x");
    second.transferFailed(1, "x");

    assertThat(failedTransfers("0")).isEqualTo(2);
    assertThat(gauge("mooncake4j.pulls")).isEqualTo(11);
    assertThat(gauge("mooncake4j.registered_bytes")).isEqualTo(1100);

    first.close();
    second.transferFailed(1, "x");
    first.transferFailed(1, "closed connectors record nothing");
    assertThat(failedTransfers("0")).isEqualTo(3);
    assertThat(gauge("mooncake4j.pulls")).isEqualTo(10);

    second.close();
    assertThat(registry.getMeters()).isEmpty();
  }

  @Test
  void closeIsIdempotentAndLeavesOthersMetersAlone() {
    registry.counter("someone.elses").increment();
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");
    metrics.bindTo(registry);
    metrics.bindTo(registry);
    metrics.transferFailed(1, "x");
    assertThat(failedTransfers("0")).as("bound twice, counted once").isEqualTo(1);

    metrics.close();
    metrics.close();

    assertThat(registry.getMeters())
        .extracting(meter -> meter.getId().getName())
        .containsExactly("someone.elses");
    assertThatThrownBy(() -> metrics.bindTo(registry))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("closed");
  }

  @Test
  void aConnectorOpenedAfterAnotherClosedStartsAtZero() {
    ConnectorMetrics first = new ConnectorMetrics("m/x");
    first.bindTo(registry);
    first.transferFailed(1, "x");
    first.close();

    try (ConnectorMetrics second = new ConnectorMetrics("m/x")) {
      second.bindTo(registry);
      assertThat(failedTransfers("0")).isZero();
    }
  }

  @Test
  void oneConnectorRecordsInSeveralRegistriesAlsoComposite() {
    SimpleMeterRegistry simple = new SimpleMeterRegistry();
    CompositeMeterRegistry composite = new CompositeMeterRegistry();
    composite.add(simple);
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");
    metrics.bindTo(registry);
    metrics.bindTo(composite);
    metrics.transferFailed(1, "x");

    assertThat(failedTransfers("0")).isEqualTo(1);
    assertThat(simple.get("vllm:mooncake_num_failed_transfers").counter().count()).isEqualTo(1);

    metrics.close();
    assertThat(registry.getMeters()).isEmpty();
    assertThat(composite.getMeters()).isEmpty();
    assertThat(simple.getMeters()).isEmpty();
  }

  @Test
  void recordingNeverThrowsAndReachesTheOtherRegistries() {
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");
    metrics.bindTo(new BrokenRegistry());
    metrics.bindTo(registry);

    metrics.transferCompleted(1, 1, 1);
    metrics.transferCompleted(-1, -1, -1);
    metrics.transferFailed(1, "x");
    metrics.receiveFailed(FAILURE);
    metrics.requestExpired("t");

    assertThat(failedTransfers("0")).isEqualTo(1);
    assertThat(registry.get("vllm:mooncake_xfer_time_seconds").timer().count()).isEqualTo(1);
    metrics.close();
  }

  @Test
  void aRegistryThatRefusesAMeterKeepsNone() {
    SimpleMeterRegistry refusing =
        new SimpleMeterRegistry() {
          @Override
          protected Counter newCounter(Meter.Id id) {
            throw new IllegalArgumentException("no counters here");
          }
        };
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");

    assertThatThrownBy(() -> metrics.bindTo(refusing)).hasMessageContaining("no counters here");
    assertThat(refusing.getMeters()).isEmpty();
    metrics.close();
  }

  @Test
  void gaugesFollowTheWatchedWorkersAndSurviveABrokenOne() {
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");
    Supplier<WorkerStats> worker = () -> new WorkerStats(4, 5, 6, 0, 0, 0, 7, 8);
    metrics.watch(worker);
    metrics.bindTo(registry);
    metrics.watch(
        () -> {
          throw new IllegalStateException("closed");
        });

    assertThat(gauge("mooncake4j.pulls")).isEqualTo(4);
    assertThat(gauge("mooncake4j.sends")).isEqualTo(5);
    assertThat(gauge("mooncake4j.waiting_pulls")).isEqualTo(6);
    assertThat(gauge("mooncake4j.live_batches")).isEqualTo(7);
    assertThat(gauge("mooncake4j.registered_bytes")).isEqualTo(8);

    metrics.unwatch(worker);
    assertThat(gauge("mooncake4j.pulls")).isZero();
    metrics.close();
  }

  @Test
  void gaugesHoldTheirTargets() {
    bindAndForget(registry);
    System.gc();

    assertThat(gauge("mooncake4j.pulls")).isEqualTo(9);
  }

  private static void bindAndForget(MeterRegistry target) {
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");
    metrics.bindTo(target);
    metrics.watch(() -> new WorkerStats(9, 0, 0, 0, 0, 0, 0, 0));
  }

  @Test
  void aRegistryThatWasDroppedWithoutCloseIsCollected() {
    WeakReference<MeterRegistry> dropped = bindToADroppedRegistry();
    for (int i = 0; i < 50 && dropped.get() != null; i++) {
      System.gc();
    }

    assertThat(dropped.get()).isNull();
  }

  private static WeakReference<MeterRegistry> bindToADroppedRegistry() {
    MeterRegistry target = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    bindAndForget(target);
    return new WeakReference<>(target);
  }

  @Test
  void recordingFromManyThreadsWhileOthersBindAndCloseLosesNothing() throws Exception {
    int threads = 4;
    int each = 2000;
    ConnectorMetrics metrics = new ConnectorMetrics("m/x");
    metrics.bindTo(registry);
    CountDownLatch done = new CountDownLatch(threads);
    try (ExecutorService pool = Executors.newFixedThreadPool(threads + 1)) {
      for (int t = 0; t < threads; t++) {
        pool.execute(
            () -> {
              for (int i = 0; i < each; i++) {
                metrics.transferCompleted(1_000_000, 4096, 1);
              }
              done.countDown();
            });
      }
      pool.execute(
          () -> {
            while (done.getCount() > 0) {
              ConnectorMetrics other = new ConnectorMetrics("m/x");
              other.bindTo(registry);
              other.close();
            }
          });
      assertThat(done.await(60, TimeUnit.SECONDS)).isTrue();
    }

    assertThat(registry.get("vllm:mooncake_xfer_time_seconds").timer().count())
        .isEqualTo((long) threads * each);
    metrics.close();
    assertThat(registry.getMeters()).isEmpty();
  }

  @Test
  void everyMeterOfTheEnumIsRegisteredAndNoOther() {
    try (ConnectorMetrics metrics = new ConnectorMetrics("m/x")) {
      metrics.bindTo(registry);
      List<String> documented = new ArrayList<>();
      for (ConnectorMeter meter : ConnectorMeter.values()) {
        documented.add(meter.meterName());
        Collection<Meter> series = registry.get(meter.meterName()).meters();
        assertThat(series)
            .as("%s", meter)
            .hasSize(meter == ConnectorMeter.FAILURES ? FailureStage.values().length : 1)
            .allSatisfy(
                one ->
                    assertThat(one.getId().getTags())
                        .extracting(Tag::getKey)
                        .containsExactlyInAnyOrderElementsOf(meter.labels()));
        Meter registered = series.iterator().next();
        assertThat(registered.getId().getDescription()).isEqualTo(meter.description());
        assertThat(meter.buckets().isEmpty())
            .isEqualTo(meter.type() != ConnectorMeter.Type.HISTOGRAM);
        assertThat(meter.unit()).isEqualTo(meter.unit().toLowerCase(Locale.ROOT)).isNotEmpty();
      }
      assertThat(registry.getMeters())
          .extracting(meter -> meter.getId().getName())
          .containsOnly(documented.toArray(String[]::new));
    }
  }

  @Test
  void failuresAreCountedByTheirStageAlone() {
    try (ConnectorMetrics metrics = new ConnectorMetrics("m/x")) {
      metrics.bindTo(registry);
      metrics.receiveFailed(FAILURE);
      metrics.receiveFailed(FAILURE);

      assertThat(registry.get("mooncake4j.failures").counters())
          .hasSize(FailureStage.values().length)
          .allSatisfy(
              counter ->
                  assertThat(counter.count())
                      .isEqualTo("transfer".equals(counter.getId().getTag("stage")) ? 2 : 0));
    }
  }

  @Test
  void oneScrapeReadsAWorkerOnce() {
    AtomicInteger readings = new AtomicInteger();
    try (ConnectorMetrics metrics = new ConnectorMetrics("m/x")) {
      metrics.bindTo(registry);
      metrics.watch(
          () -> {
            readings.incrementAndGet();
            return new WorkerStats(1, 0, 0, 0, 0, 0, 0, 0);
          });
      assertThat(registry.scrape()).contains("mooncake4j_pulls{");

      // A busy machine may take longer than a reading serves.
      assertThat(readings.get()).isBetween(1, 5);
    }
  }

  private double failedTransfers(String engine) {
    return registry
        .get("vllm:mooncake_num_failed_transfers")
        .tag("engine", engine)
        .counter()
        .count();
  }

  private double gauge(String name) {
    return registry.get(name).gauge().value();
  }

  private static List<String> types(String text) {
    return text.lines().filter(line -> line.startsWith("# TYPE")).toList();
  }

  /** A registry whose counters and summaries throw when they record. */
  private static final class BrokenRegistry extends SimpleMeterRegistry {
    @Override
    protected Counter newCounter(Meter.Id id) {
      return new CumulativeCounter(id) {
        @Override
        public void increment(double amount) {
          throw new IllegalStateException("counter is broken");
        }
      };
    }

    @Override
    protected DistributionSummary newDistributionSummary(
        Meter.Id id, DistributionStatisticConfig config, double scale) {
      return new CumulativeDistributionSummary(id, clock, config, scale, NoopHistogram.INSTANCE) {
        @Override
        protected void recordNonNegative(double amount) {
          throw new IllegalStateException("summary is broken");
        }
      };
    }
  }
}
