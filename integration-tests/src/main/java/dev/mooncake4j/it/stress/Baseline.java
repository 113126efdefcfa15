package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.State;

/**
 * What peers hold when they are idle after the warm-up, and what they hold beyond it at the end.
 */
final class Baseline {
  /** Threads and descriptors that may be more by chance: pools of the JVM, a connection closing. */
  private static final int SLACK = 8;

  private final long[] threads = new long[2];
  private final long[] descriptors = new long[2];
  private long leakedThreads;
  private long leakedDescriptors;
  private long blocks;
  private long leases;
  private long quarantined;
  private long batches;
  private long requests;
  private long spoiled;
  private long strays;
  private long sick;

  private static int role(Peer peer) {
    return peer.prefiller ? 0 : 1;
  }

  /** The most that any of its role holds. */
  void take(Peer peer) {
    State state = StressRun.state(peer);
    int role = role(peer);
    threads[role] = Math.max(threads[role], state.threads());
    descriptors[role] = Math.max(descriptors[role], state.descriptors());
  }

  private long moreThreads(Peer peer) {
    return Math.max(0, StressRun.state(peer).threads() - threads[role(peer)] - SLACK);
  }

  private long moreDescriptors(Peer peer) {
    return Math.max(0, StressRun.state(peer).descriptors() - descriptors[role(peer)] - SLACK);
  }

  private static long requests(State state) {
    return (long) state.outstanding()
        + state.pulls()
        + state.sends()
        + state.waitingPulls()
        + state.queuedTransfers();
  }

  /** Whether a peer is as it was. */
  boolean isBack(Peer peer) {
    State state = StressRun.state(peer);
    return requests(state) == 0
        && state.leases() == 0
        && state.liveBatches() == 0
        && state.quarantinedBlocks() == 0
        && moreThreads(peer) == 0
        && moreDescriptors(peer) == 0;
  }

  /** Adds up what a peer holds beyond it. */
  void compare(Peer peer) {
    State state = StressRun.state(peer);
    leakedThreads += moreThreads(peer);
    leakedDescriptors += moreDescriptors(peer);
    blocks += state.blocksInUse();
    leases += state.leases();
    quarantined += state.quarantinedBlocks();
    batches += state.liveBatches();
    requests += requests(state);
    spoiled += state.spoiled();
    strays += state.strays();
    sick += state.healthy() ? 0 : 1;
  }

  void print(Table table) {
    table.mustBeZero("bytes written to blocks that were free", spoiled);
    table.mustBeZero("results that named no live request", strays);
    table.mustBeZero("leaked requests", requests);
    table.mustBeZero("leaked blocks", blocks + quarantined);
    table.mustBeZero("leaked leases", leases);
    table.mustBeZero("leaked threads", leakedThreads);
    table.mustBeZero("leaked file descriptors", leakedDescriptors);
    table.mustBeZero("leaked native batches", batches);
    table.mustBeZero("peers that are not healthy", sick);
  }
}
