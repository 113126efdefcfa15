package dev.mooncake4j.metrics;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.WorkerStats;
import dev.mooncake4j.connector.spi.TransferListener;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Records a connector's transfers in the meters of {@link ConnectorMeter}.
 *
 * <p>Give it to the connector as its listener, and bind it to as many registries as you like; every
 * meter is there at 0 as soon as it is bound:
 *
 * <pre>{@code
 * ConnectorMetrics metrics = new ConnectorMetrics("Qwen/Qwen2.5-7B-Instruct");
 * metrics.bindTo(registry);
 * KvConnector connector = KvConnector.open(config, ConnectorHooks.none().withListener(metrics));
 * KvWorker worker = connector.openWorker();
 * metrics.watch(worker::stats);
 * }</pre>
 *
 * <p>Several connectors may share a registry; those with the same labels share the meters, and the
 * last one to close removes them. Thread-safe. Recording never throws and takes no lock of ours.
 */
public final class ConnectorMetrics implements MeterBinder, TransferListener, AutoCloseable {
  /** The value of the label {@code engine} where none is given: vLLM's first engine. */
  public static final String FIRST_ENGINE = "0";

  private static final Logger log = LoggerFactory.getLogger(ConnectorMetrics.class);

  /**
   * How long a reading of the workers serves: a scrape asks for ten figures, and a worker that is
   * stuck keeps each reading waiting.
   */
  private static final long READING_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final MeterSet.Labels labels;
  private final List<Supplier<WorkerStats>> workers = new CopyOnWriteArrayList<>();
  private final AtomicBoolean failureLogged = new AtomicBoolean();
  // Null once closed. The list is immutable, so that recording reads it without a lock.
  private final AtomicReference<@Nullable List<MeterSet>> bound = new AtomicReference<>(List.of());

  // Of a moment ago, or null.
  private volatile @Nullable Reading reading;

  private record Reading(long at, List<WorkerStats> stats) {}

  /** With the labels {@code model_name} and {@code engine="0"}. */
  public ConnectorMetrics(String modelName) {
    this(modelName, FIRST_ENGINE);
  }

  /**
   * With both labels.
   *
   * @param modelName the served model's name
   * @param engine the engine's index among those of one server, as vLLM has it: {@code "0"}, {@code
   *     "1"}, …
   */
  public ConnectorMetrics(String modelName, String engine) {
    this.labels = new MeterSet.Labels(modelName, engine);
  }

  /**
   * Registers the meters; a registry bound before is left alone.
   *
   * @throws IllegalStateException if this is closed
   */
  @Override
  public synchronized void bindTo(MeterRegistry registry) {
    List<MeterSet> sets = bound.get();
    if (sets == null) {
      throw new IllegalStateException("connector metrics are closed: make new ones to bind");
    }
    for (MeterSet set : sets) {
      if (set.isOf(registry)) {
        return;
      }
    }
    List<MeterSet> more = new ArrayList<>(sets);
    more.add(MeterSet.join(registry, labels, this));
    bound.set(List.copyOf(more));
  }

  /**
   * Lets the gauges show a worker; they sum over all that are watched. The supplier is held until
   * {@link #unwatch} or {@link #close()}; one that throws counts as 0.
   */
  public void watch(Supplier<WorkerStats> worker) {
    workers.add(worker);
    reading = null;
  }

  /** Leaves a worker out again; the same object that {@link #watch} was given. */
  public void unwatch(Supplier<WorkerStats> worker) {
    workers.remove(worker);
    reading = null;
  }

  /** Removes what was registered, unless another connector still uses it. Idempotent. */
  @Override
  public synchronized void close() {
    List<MeterSet> sets = bound.getAndSet(null);
    if (sets != null) {
      for (MeterSet set : sets) {
        set.leave(this);
      }
    }
    workers.clear();
  }

  @Override
  public void transferCompleted(long durationNanos, long bytes, int descriptors) {
    record(meters -> meters.completed(durationNanos, bytes, descriptors));
  }

  @Override
  public void transferFailed(int requests, String reason) {
    // vLLM counts the transfer, however many requests went with it.
    record(meters -> meters.failedTransfers().increment());
  }

  @Override
  public void prefillWaited(long nanos) {
    record(meters -> meters.prefillWaited(nanos));
  }

  @Override
  public void leasesRenewed(int count) {
    record(meters -> meters.leaseRenewals().increment(count));
  }

  @Override
  public void receiveCompleted(long durationNanos, int blocks) {
    record(meters -> meters.fetched(durationNanos, blocks));
  }

  @Override
  public void receiveFailed(Failure failure) {
    record(meters -> meters.failed(failure.stage()));
  }

  @Override
  public void requestExpired(String transferId) {
    record(meters -> meters.expiredRequests().increment());
  }

  private void record(Consumer<MeterSet> recording) {
    List<MeterSet> sets = bound.get();
    if (sets == null) {
      return;
    }
    for (MeterSet set : sets) {
      try {
        recording.accept(set);
      } catch (RuntimeException e) {
        if (failureLogged.compareAndSet(false, true)) {
          log.warn("a meter registry failed to record; logged once, transfers go on", e);
        }
      }
    }
  }

  /** The sum of a figure over the watched workers. */
  long sum(ToLongFunction<WorkerStats> figure) {
    long sum = 0;
    for (WorkerStats stats : reading()) {
      sum += figure.applyAsLong(stats);
    }
    return sum;
  }

  private List<WorkerStats> reading() {
    Reading last = reading;
    if (last != null && System.nanoTime() - last.at() < READING_NANOS) {
      return last.stats();
    }
    List<WorkerStats> stats = read();
    reading = new Reading(System.nanoTime(), stats);
    return stats;
  }

  private List<WorkerStats> read() {
    List<WorkerStats> all = new ArrayList<>();
    for (Supplier<WorkerStats> worker : workers) {
      try {
        all.add(worker.get());
      } catch (RuntimeException e) {
        if (failureLogged.compareAndSet(false, true)) {
          log.warn("a worker's figures could not be read; logged once, it counts as 0", e);
        }
      }
    }
    return all;
  }
}
