package dev.mooncake4j.connector;

/**
 * What one worker holds at a moment: every figure is 0 again when all requests have ended.
 *
 * @param pulls decoder: requests being fetched
 * @param sends prefiller: transfers announced or ready
 * @param waitingPulls prefiller: requests of decoders that wait for their prefill
 * @param leases leases that are watched
 * @param quarantinedBlocks decoder: blocks that a peer may still write to
 * @param queuedTransfers transfers that wait for an engine thread or are under way
 * @param liveBatches native batches not yet known to be over
 * @param registeredBytes bytes registered with the engine
 * @param writingTransfers prefiller: those of the {@code queuedTransfers} that an engine thread has
 *     taken; the others wait for one
 * @param pinnedBlocks prefiller: blocks of the server's that are kept until they are fetched or
 *     given up, and no write reads them
 */
public record WorkerStats(
    int pulls,
    int sends,
    int waitingPulls,
    int leases,
    int quarantinedBlocks,
    int queuedTransfers,
    int liveBatches,
    long registeredBytes,
    int writingTransfers,
    int pinnedBlocks) {

  /** Figures with nothing being written and nothing kept. */
  public WorkerStats(
      int pulls,
      int sends,
      int waitingPulls,
      int leases,
      int quarantinedBlocks,
      int queuedTransfers,
      int liveBatches,
      long registeredBytes) {
    this(
        pulls,
        sends,
        waitingPulls,
        leases,
        quarantinedBlocks,
        queuedTransfers,
        liveBatches,
        registeredBytes,
        0,
        0);
  }
}
