package dev.mooncake4j.metrics;

import java.util.List;
import java.util.stream.IntStream;

/**
 * Every meter of a connector, each with the labels {@code model_name} and {@code engine}, and one
 * with a further label: see {@link #labels()}. The values of labels are few, whatever is asked for.
 *
 * <p>The six that start with {@code vllm:} have the names and buckets of vLLM's MooncakeConnector,
 * so that dashboards made for it read a scrape of ours; Prometheus shows a counter with {@code
 * _total} after its name, a histogram as {@code _bucket}, {@code _count} and {@code _sum}
 * (Micrometer adds a gauge {@code _max}), and dots as underscores. The engine pushes, so vLLM's
 * three histograms fill on a prefiller only.
 *
 * <p>Prometheus' Java client writes a large bucket's bound as {@code le="3.3554432E7"} where
 * Python's writes {@code le="3.3554432e+07"}: the same number, and Prometheus from 3.0 on stores
 * both alike, but a query to an older one that names such a bound as text has to name ours.
 */
public enum ConnectorMeter {
  /** How long the copy of one transfer took. */
  XFER_TIME(
      "vllm:mooncake_xfer_time_seconds",
      Type.HISTOGRAM,
      "seconds",
      "Duration of the copy, per transfer.",
      List.of(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)),

  /** How much one transfer moved; buckets from 2 KiB to 8 GiB, each four times the last. */
  BYTES_TRANSFERRED(
      "vllm:mooncake_bytes_transferred",
      Type.HISTOGRAM,
      "bytes",
      "Bytes moved, per transfer.",
      IntStream.rangeClosed(0, 11).mapToObj(i -> (double) (1L << (11 + 2 * i))).toList()),

  /** How many pieces one transfer had, after neighbours were merged. */
  NUM_DESCRIPTORS(
      "vllm:mooncake_num_descriptors",
      Type.HISTOGRAM,
      "descriptors",
      "Descriptors, per transfer.",
      List.of(
          10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 200.0, 400.0, 1000.0, 2000.0, 4000.0, 10000.0,
          20000.0, 50000.0)),

  /** Transfers that failed, counted on the prefiller; one for all requests of a transfer. */
  NUM_FAILED_TRANSFERS(
      "vllm:mooncake_num_failed_transfers",
      Type.COUNTER,
      "transfers",
      "Transfers of KV blocks that failed."),

  /** Requests whose load failed, counted on the decoder. */
  NUM_FAILED_RECVS(
      "vllm:mooncake_num_failed_recvs",
      Type.COUNTER,
      "requests",
      "Requests whose KV blocks could not be received."),

  /** Requests whose blocks expired on the prefiller before a decoder had fetched them. */
  NUM_KV_EXPIRED_REQS(
      "vllm:mooncake_num_kv_expired_reqs",
      Type.COUNTER,
      "requests",
      "Requests whose KV blocks expired on the prefiller before a decoder read them."),

  /**
   * Prefiller: how long pulls waited for their prefill; one for each request of a pull, 0 where the
   * prefill had ended before. To be held against {@link #FETCH_TIME}, which has the wait in it.
   */
  PREFILL_WAIT(
      "mooncake4j.prefill_wait_seconds",
      Type.HISTOGRAM,
      "seconds",
      "How long a decoder's pull waited for its prefill, per request.",
      Buckets.LONG_SECONDS),

  /** Decoder: how long the fetch of a request's blocks took, from the pull's start to its end. */
  FETCH_TIME(
      "mooncake4j.fetch_seconds",
      Type.HISTOGRAM,
      "seconds",
      "How long the fetch of a request's blocks took, its wait for the prefill included.",
      Buckets.LONG_SECONDS),

  /** Decoder: blocks that were fetched. */
  FETCHED_BLOCKS(
      "mooncake4j.fetched_blocks", Type.COUNTER, "blocks", "Blocks fetched from prefillers."),

  /**
   * Decoder: requests whose load failed, by the label {@code stage}: a {@link
   * dev.mooncake4j.connector.FailureStage} in lower case. Their sum is {@link #NUM_FAILED_RECVS}.
   */
  FAILURES(
      "mooncake4j.failures",
      Type.COUNTER,
      "requests",
      "Requests whose load failed, by the stage at which it did."),

  /**
   * Leases that are watched: of ready transfers on a prefiller, of queued requests on a decoder.
   */
  LEASES("mooncake4j.leases", Type.GAUGE, "leases", "Leases that are watched."),

  /** Prefiller: leases that decoders have renewed. */
  LEASE_RENEWALS(
      "mooncake4j.lease_renewals", Type.COUNTER, "leases", "Leases renewed by decoders."),

  /** Prefiller: transfers that wait for an engine thread. */
  TRANSFERS_QUEUED(
      "mooncake4j.transfers_queued",
      Type.GAUGE,
      "transfers",
      "Transfers that wait for an engine thread."),

  /** Prefiller: transfers that an engine thread has taken and whose writes are not over. */
  TRANSFERS_WRITING(
      "mooncake4j.transfers_writing", Type.GAUGE, "transfers", "Transfers being written."),

  /** Prefiller: blocks that are kept until decoders have them. */
  PINNED_BLOCKS(
      "mooncake4j.pinned_blocks",
      Type.GAUGE,
      "blocks",
      "Blocks kept on the prefiller until they are fetched or given up."),

  /** Decoder: blocks of failed requests that a peer may still write to. */
  QUARANTINED_BLOCKS(
      "mooncake4j.quarantined_blocks",
      Type.GAUGE,
      "blocks",
      "Blocks of failed requests that a peer may still write to."),

  /** Decoder: requests being fetched. */
  PULLS("mooncake4j.pulls", Type.GAUGE, "requests", "Requests being fetched by the decoder."),

  /** Prefiller: transfers announced or ready. */
  SENDS("mooncake4j.sends", Type.GAUGE, "transfers", "Transfers announced or ready to be sent."),

  /** Prefiller: requests of decoders that wait for their prefill. */
  WAITING_PULLS(
      "mooncake4j.waiting_pulls",
      Type.GAUGE,
      "requests",
      "Requests of decoders that wait for their prefill."),

  /** Native batches not yet freed; 0 when idle. */
  LIVE_BATCHES(
      "mooncake4j.live_batches", Type.GAUGE, "batches", "Batches of the engine not yet freed."),

  /** Bytes registered with the engine. */
  REGISTERED_BYTES(
      "mooncake4j.registered_bytes", Type.GAUGE, "bytes", "Bytes registered with the engine.");

  /** What kind of meter it is, as Prometheus calls it. */
  public enum Type {
    /** A distribution in buckets. */
    HISTOGRAM,
    /** A count that only grows. */
    COUNTER,
    /** A figure as it is now. */
    GAUGE
  }

  /** The label of {@link #FAILURES} beside the two that all have. */
  public static final String STAGE_LABEL = "stage";

  private final String meterName;
  private final Type type;
  private final String unit;
  private final String description;

  // Always an unmodifiable list.
  @SuppressWarnings("ImmutableEnumChecker")
  private final List<Double> buckets;

  ConnectorMeter(
      String meterName, Type type, String unit, String description, List<Double> buckets) {
    this.meterName = meterName;
    this.type = type;
    this.unit = unit;
    this.description = description;
    this.buckets = buckets;
  }

  ConnectorMeter(String meterName, Type type, String unit, String description) {
    this(meterName, type, unit, description, List.of());
  }

  /** The meter's name in a Micrometer registry. */
  public String meterName() {
    return meterName;
  }

  /** What kind of meter it is. */
  public Type type() {
    return type;
  }

  /** What it counts or measures in, in plural. */
  public String unit() {
    return unit;
  }

  /** What it tells, in one sentence. */
  public String description() {
    return description;
  }

  /** The names of its labels. */
  public List<String> labels() {
    return this == FAILURES
        ? List.of("model_name", "engine", STAGE_LABEL)
        : List.of("model_name", "engine");
  }

  /** Upper bounds of a histogram's buckets, ascending, without infinity; empty for the others. */
  public List<Double> buckets() {
    return buckets;
  }

  private static final class Buckets {
    /** From a fetch over a fast link to the abort timeout, 480 s. */
    static final List<Double> LONG_SECONDS =
        List.of(
            0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
            480.0);
  }
}
