package dev.mooncake4j.it.stress;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** What the driver and its peers tell each other, one JSON object a line. */
final class Messages {
  private Messages() {}

  /** What a peer is told. */
  record ToPeer(Command command, List<SendJob> sends, List<PullJob> pulls) {
    static ToPeer of(Command command) {
      return new ToPeer(command, List.of(), List.of());
    }
  }

  enum Command {
    /** Take the jobs of this message. */
    JOBS,
    /** Tell your figures. */
    STATE,
    /** Close the connector and end. */
    QUIT
  }

  /**
   * A prefiller's half of a request.
   *
   * @param n the request's number
   * @param transferId its transfer
   * @param blocks blocks of its prompt
   * @param scattered whether they lie apart
   * @param computeMillis from its arrival to the end of its prefill
   * @param abort the prefill is given up instead of ended
   * @param letGoMillis when a router lets it go here, or -1
   */
  record SendJob(
      long n,
      String transferId,
      int blocks,
      boolean scattered,
      int computeMillis,
      boolean abort,
      int letGoMillis) {}

  /**
   * A decoder's half of a request.
   *
   * @param n the request's number
   * @param transferId its transfer
   * @param engineId the prefiller's
   * @param bootstrap the prefiller's
   * @param promptBlocks blocks of its prompt
   * @param cachedBlocks how many of them need not be fetched
   * @param scattered whether the blocks to fill lie apart
   * @param queueMillis from its arrival until it is scheduled
   * @param giveUp it ends instead of being scheduled
   * @param abortMillis when it is aborted after that, or -1
   * @param letGoMillis when a router lets it go here, or -1
   */
  record PullJob(
      long n,
      String transferId,
      String engineId,
      String bootstrap,
      int promptBlocks,
      int cachedBlocks,
      boolean scattered,
      int queueMillis,
      boolean giveUp,
      int abortMillis,
      int letGoMillis) {}

  /** What a peer tells; each part where there is something to tell. */
  record FromPeer(@Nullable Ready ready, List<Ended> ended, @Nullable State state) {}

  /** It can be given jobs. */
  record Ready(String engineId, @Nullable String bootstrap) {}

  /** How a half of a request ended, or that its blocks are quiet now. */
  enum Outcome {
    /** Decoder: all blocks are in place, and were looked at. */
    DONE,
    /** Decoder: the connector reported a failure. */
    FAILED,
    /** Decoder: blocks of an earlier failure may be used again. */
    QUIETED,
    /** Decoder: the scheduler would not fetch. */
    REFUSED,
    /** Either: ended without blocks, as told. */
    LET_GO,
    /** Prefiller: the decoder has the blocks. */
    SERVED,
    /** Prefiller: the lease ran out. */
    EXPIRED,
    /** Prefiller: the decoder, a router or the server let go. */
    RELEASED
  }

  /**
   * One end.
   *
   * @param stage of a failure, or empty
   * @param reason of a failure, or empty
   * @param quiet whether its blocks were given back with it
   * @param bytes that were looked at
   * @param wrong bytes among them that were not what was sent
   */
  record Ended(
      long n, Outcome outcome, String stage, String reason, boolean quiet, long bytes, long wrong) {
    static Ended of(long n, Outcome outcome) {
      return new Ended(n, outcome, "", "", true, 0, 0);
    }
  }

  /**
   * A peer's figures.
   *
   * @param blocksInUse blocks that are not free
   * @param spoiled bytes of free blocks that somebody has written to
   * @param strays results that named no live request
   * @param outstanding requests that are not over
   */
  record State(
      int pulls,
      int sends,
      int waitingPulls,
      int leases,
      int quarantinedBlocks,
      int queuedTransfers,
      int liveBatches,
      long blocksInUse,
      long spoiled,
      long strays,
      int outstanding,
      long threads,
      long descriptors,
      boolean healthy) {}
}
