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
 * @param progress prefiller: what is finished of prefills that go on
 */
public record StepPlan(
    List<Arrival> arrivals,
    List<Pull> pulls,
    List<String> cancelledPulls,
    List<Announcement> announcements,
    List<Ready> ready,
    List<CancelledSend> cancelledSends,
    List<Progress> progress)
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
    progress = List.copyOf(progress);
  }

  /** A plan without progress of prefills that go on. */
  public StepPlan(
      List<Arrival> arrivals,
      List<Pull> pulls,
      List<String> cancelledPulls,
      List<Announcement> announcements,
      List<Ready> ready,
      List<CancelledSend> cancelledSends) {
    this(arrivals, pulls, cancelledPulls, announcements, ready, cancelledSends, List.of());
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
   * @param blocksKept whether the server keeps the blocks, since they may be being written: each
   *     worker names the request in {@link StepResult#sent()} when none of them is any more
   */
  public record CancelledSend(
      String requestId, String transferId, String reason, boolean blocksKept)
      implements Serializable {

    /** A prefill whose blocks the server has taken back already. */
    public CancelledSend(String requestId, String transferId, String reason) {
      this(requestId, transferId, reason, false);
    }
  }

  /**
   * A prefill goes on, and so many of its blocks are finished that they may be written already.
   *
   * <p>Each tells all that is finished, not what has come since the last: a worker needs the last
   * one alone. It counts for a transfer that was announced, until it is ready or given up; told for
   * another it changes nothing. Blocks that are finished here may be being read from the moment on
   * at which a worker has the step, until the transfer is ready and over, or given up and named in
   * {@link StepResult#sent()}.
   *
   * <p>A group of which nothing is to be written before {@link Ready} (a sliding window, a state)
   * has no finished blocks here and a total of 0.
   *
   * @param requestId the prefiller's request id
   * @param transferId the transfer's id
   * @param restarts how often the prefill has begun anew, from 0: with another number than before
   *     nothing that was finished before counts
   * @param finished the finished blocks of each group, from the prompt's first on; at most as many
   *     as the group's total
   * @param totals how many blocks of each group the whole prompt will have, one number for each
   *     group of {@code finished}; at least 0. Should {@link Ready} have another number, all is
   *     written again
   */
  public record Progress(
      String requestId, String transferId, int restarts, BlockIds finished, List<Integer> totals)
      implements Serializable {

    /**
     * Copies the list.
     *
     * @throws IllegalArgumentException if there is not one total for each group, or a group has
     *     more finished blocks than its total
     */
    public Progress {
      totals = List.copyOf(totals);
      if (totals.size() != finished.groupCount()) {
        throw new IllegalArgumentException(
            "totals="
                + totals.size()
                + " are not as many as finished groups="
                + finished.groupCount());
      }
      for (int g = 0; g < totals.size(); g++) {
        if (finished.size(g) > totals.get(g)) {
          throw new IllegalArgumentException(
              "group="
                  + g
                  + " has finished blocks="
                  + finished.size(g)
                  + " of total="
                  + totals.get(g));
        }
      }
    }
  }
}
