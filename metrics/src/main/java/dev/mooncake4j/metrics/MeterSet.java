package dev.mooncake4j.metrics;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.WorkerStats;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;

/**
 * The meters of one registry under one pair of labels, with the connectors that use them.
 *
 * <p>A registry has one meter for a name and labels, however many connectors ask for it. Were each
 * connector to remove "its" meters, the first to close would take them from the others; so they are
 * counted here, for every registry that is alive.
 */
final class MeterSet {

  /** The values of {@code model_name} and {@code engine}. */
  record Labels(String modelName, String engine) {
    Tags tags() {
      return Tags.of("model_name", modelName, "engine", engine);
    }
  }

  // Guarded by itself. Registries compare by identity; the sets hold none of them strongly.
  private static final Map<MeterRegistry, Map<Labels, MeterSet>> ALL = new WeakHashMap<>();

  private final WeakReference<MeterRegistry> registry;
  private final Labels labels;
  private final List<ConnectorMetrics> users = new CopyOnWriteArrayList<>();
  private final List<Meter> meters = new ArrayList<>();
  private final Timer transferTime;
  private final DistributionSummary bytes;
  private final DistributionSummary descriptors;
  private final Counter failedTransfers;
  private final Counter failedReceives;
  private final Counter expiredRequests;
  private final Timer prefillWait;
  private final Timer fetchTime;
  private final Counter fetchedBlocks;
  private final Counter leaseRenewals;
  private final Map<FailureStage, Counter> failures = new EnumMap<>(FailureStage.class);

  private MeterSet(MeterRegistry registry, Labels labels) {
    this.registry = new WeakReference<>(registry);
    this.labels = labels;
    Tags tags = labels.tags();
    try {
      transferTime = added(timer(ConnectorMeter.XFER_TIME, tags, registry));
      bytes = added(summary(ConnectorMeter.BYTES_TRANSFERRED, tags, registry));
      descriptors = added(summary(ConnectorMeter.NUM_DESCRIPTORS, tags, registry));
      failedTransfers = added(counter(ConnectorMeter.NUM_FAILED_TRANSFERS, tags, registry));
      failedReceives = added(counter(ConnectorMeter.NUM_FAILED_RECVS, tags, registry));
      expiredRequests = added(counter(ConnectorMeter.NUM_KV_EXPIRED_REQS, tags, registry));
      prefillWait = added(timer(ConnectorMeter.PREFILL_WAIT, tags, registry));
      fetchTime = added(timer(ConnectorMeter.FETCH_TIME, tags, registry));
      fetchedBlocks = added(counter(ConnectorMeter.FETCHED_BLOCKS, tags, registry));
      leaseRenewals = added(counter(ConnectorMeter.LEASE_RENEWALS, tags, registry));
      for (FailureStage stage : FailureStage.values()) {
        Tags staged = tags.and(ConnectorMeter.STAGE_LABEL, stage.name().toLowerCase(Locale.ROOT));
        failures.put(stage, added(counter(ConnectorMeter.FAILURES, staged, registry)));
      }
      gauge(ConnectorMeter.LEASES, tags, registry, WorkerStats::leases);
      gauge(
          ConnectorMeter.TRANSFERS_QUEUED,
          tags,
          registry,
          stats -> stats.queuedTransfers() - stats.writingTransfers());
      gauge(ConnectorMeter.TRANSFERS_WRITING, tags, registry, WorkerStats::writingTransfers);
      gauge(ConnectorMeter.PINNED_BLOCKS, tags, registry, WorkerStats::pinnedBlocks);
      gauge(ConnectorMeter.QUARANTINED_BLOCKS, tags, registry, WorkerStats::quarantinedBlocks);
      gauge(ConnectorMeter.PULLS, tags, registry, WorkerStats::pulls);
      gauge(ConnectorMeter.SENDS, tags, registry, WorkerStats::sends);
      gauge(ConnectorMeter.WAITING_PULLS, tags, registry, WorkerStats::waitingPulls);
      gauge(ConnectorMeter.LIVE_BATCHES, tags, registry, WorkerStats::liveBatches);
      gauge(ConnectorMeter.REGISTERED_BYTES, tags, registry, WorkerStats::registeredBytes);
    } catch (RuntimeException e) {
      meters.forEach(registry::remove);
      throw e;
    }
  }

  /** The meters for these labels, registered now or shared, with one more user. */
  static MeterSet join(MeterRegistry registry, Labels labels, ConnectorMetrics user) {
    synchronized (ALL) {
      Map<Labels, MeterSet> sets = ALL.computeIfAbsent(registry, r -> new HashMap<>());
      MeterSet set = sets.get(labels);
      if (set == null) {
        set = new MeterSet(registry, labels);
        sets.put(labels, set);
      }
      set.users.add(user);
      return set;
    }
  }

  /** Takes a user away; the last one takes the meters along. */
  void leave(ConnectorMetrics user) {
    synchronized (ALL) {
      users.remove(user);
      MeterRegistry target = registry.get();
      if (!users.isEmpty() || target == null) {
        return;
      }
      meters.forEach(target::remove);
      Map<Labels, MeterSet> sets = ALL.get(target);
      if (sets != null && sets.remove(labels) != null && sets.isEmpty()) {
        ALL.remove(target);
      }
    }
  }

  boolean isOf(MeterRegistry other) {
    return registry.refersTo(other);
  }

  void completed(long durationNanos, long byteCount, int descriptorCount) {
    transferTime.record(durationNanos, TimeUnit.NANOSECONDS);
    bytes.record((double) byteCount);
    descriptors.record(descriptorCount);
  }

  Counter failedTransfers() {
    return failedTransfers;
  }

  void failed(FailureStage stage) {
    failedReceives.increment();
    Counter ofStage = failures.get(stage);
    if (ofStage != null) {
      ofStage.increment();
    }
  }

  void prefillWaited(long nanos) {
    prefillWait.record(nanos, TimeUnit.NANOSECONDS);
  }

  void fetched(long durationNanos, int blocks) {
    fetchTime.record(durationNanos, TimeUnit.NANOSECONDS);
    fetchedBlocks.increment(blocks);
  }

  Counter leaseRenewals() {
    return leaseRenewals;
  }

  Counter expiredRequests() {
    return expiredRequests;
  }

  private <M extends Meter> M added(M meter) {
    meters.add(meter);
    return meter;
  }

  private void gauge(
      ConnectorMeter meter, Tags tags, MeterRegistry target, ToLongFunction<WorkerStats> figure) {
    added(
        Gauge.builder(meter.meterName(), users, all -> sum(all, figure))
            .description(meter.description())
            .tags(tags)
            .strongReference(true)
            .register(target));
  }

  private static double sum(List<ConnectorMetrics> users, ToLongFunction<WorkerStats> figure) {
    long sum = 0;
    for (ConnectorMetrics user : users) {
      sum += user.sum(figure);
    }
    return sum;
  }

  // No base unit on any meter: Prometheus's naming would put it at the end of the name.

  private static Timer timer(ConnectorMeter meter, Tags tags, MeterRegistry target) {
    return Timer.builder(meter.meterName())
        .description(meter.description())
        .tags(tags)
        .serviceLevelObjectives(
            meter.buckets().stream()
                .map(seconds -> Duration.ofNanos(Math.round(seconds * 1e9)))
                .toArray(Duration[]::new))
        .register(target);
  }

  private static DistributionSummary summary(
      ConnectorMeter meter, Tags tags, MeterRegistry target) {
    return DistributionSummary.builder(meter.meterName())
        .description(meter.description())
        .tags(tags)
        .serviceLevelObjectives(meter.buckets().stream().mapToDouble(Double::doubleValue).toArray())
        .register(target);
  }

  private static Counter counter(ConnectorMeter meter, Tags tags, MeterRegistry target) {
    return Counter.builder(meter.meterName())
        .description(meter.description())
        .tags(tags)
        .register(target);
  }
}
