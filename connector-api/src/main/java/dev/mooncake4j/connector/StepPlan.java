package dev.mooncake4j.connector;

import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What the scheduler side hands to every worker at one step.
 *
 * <p>Plain data: it can be serialized and sent to workers in other processes. Immutable.
 *
 * @param arrivals decoder: requests whose lease is to be renewed from now on
 * @param pulls decoder: requests whose blocks are to be fetched, or only released
 * @param cancelledPulls decoder: request ids given up by the server
 * @param announcements prefiller: transfers whose prefill has begun
 * @param ready prefiller: transfers whose prefill has ended, with their blocks
 * @param cancelledSends prefiller: transfers whose prefill was given up
 */
public record StepPlan(
    List<Arrival> arrivals,
    List<Pull> pulls,
    List<String> cancelledPulls,
    List<Announcement> announcements,
    List<Ready> ready,
    List<CancelledSend> cancelledSends)
    implements Serializable {

  private static final StepPlan EMPTY =
      new StepPlan(List.of(), List.of(), List.of(), List.of(), List.of(), List.of());

  /** Copies the lists. */
  public StepPlan {
    arrivals = List.copyOf(arrivals);
    pulls = List.copyOf(pulls);
    cancelledPulls = List.copyOf(cancelledPulls);
    announcements = List.copyOf(announcements);
    ready = List.copyOf(ready);
    cancelledSends = List.copyOf(cancelledSends);
  }

  /** Nothing to do. */
  public static StepPlan empty() {
    return EMPTY;
  }

  /** Whether there is nothing to do. */
  public boolean isEmpty() {
    return equals(EMPTY);
  }

  /**
   * A decoder's request has arrived and may wait: its blocks on the prefiller are to be kept.
   *
   * @param requestId the decoder's request id
   * @param transferId the transfer's id
   * @param remoteEngineId the prefiller's engine id
   * @param remoteBootstrapAddr the prefiller's bootstrap server
   */
  public record Arrival(
      String requestId, String transferId, String remoteEngineId, String remoteBootstrapAddr)
      implements Serializable {}

  /**
   * A decoder's request whose blocks are allocated and are to be filled.
   *
   * @param requestId the decoder's request id
   * @param transferId the transfer's id
   * @param remoteEngineId the prefiller's engine id
   * @param remoteBootstrapAddr the prefiller's bootstrap server
   * @param blocks the blocks to fill; {@link BlockIds#none()} only releases the prefiller's
   * @param trace the trace that the request is in, if any
   */
  public record Pull(
      String requestId,
      String transferId,
      String remoteEngineId,
      String remoteBootstrapAddr,
      BlockIds blocks,
      @Nullable TraceContext trace)
      implements Serializable {

    /** A pull of a request that is in no trace. */
    public Pull(
        String requestId,
        String transferId,
        String remoteEngineId,
        String remoteBootstrapAddr,
        BlockIds blocks) {
      this(requestId, transferId, remoteEngineId, remoteBootstrapAddr, blocks, null);
    }
  }

  /**
   * A prefill has begun.
   *
   * @param requestId the prefiller's request id
   * @param transferId the transfer's id
   * @param trace the trace that the request is in, if any
   */
  public record Announcement(String requestId, String transferId, @Nullable TraceContext trace)
      implements Serializable {

    /** An announcement of a request that is in no trace. */
    public Announcement(String requestId, String transferId) {
      this(requestId, transferId, null);
    }
  }

  /**
   * A prefill has ended and its blocks can be sent.
   *
   * @param requestId the prefiller's request id
   * @param transferId the transfer's id
   * @param blocks all blocks of the prompt
   */
  public record Ready(String requestId, String transferId, BlockIds blocks)
      implements Serializable {}

  /**
   * A prefill was given up: a decoder that waits is told at once.
   *
   * @param requestId the prefiller's request id
   * @param transferId the transfer's id
   * @param reason why, for the decoder
   */
  public record CancelledSend(String requestId, String transferId, String reason)
      implements Serializable {}
}
