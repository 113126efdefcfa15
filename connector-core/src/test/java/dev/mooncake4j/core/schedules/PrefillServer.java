package dev.mooncake4j.core.schedules;

import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.rig.RigPrefiller;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** The server around one prefiller rank: what it was told, and what it must be told. */
final class PrefillServer {
  final RigPrefiller rank;
  final BlockPool blocks;
  private final Map<String, Send> unended = new HashMap<>();

  /** A prefill, with the blocks that the connector holds once it has ended. */
  static final class Send {
    final String transferId;
    final String requestId;
    int[] blocks = {};
    boolean ready;

    Send(String transferId) {
      this.transferId = transferId;
      this.requestId = "p-" + transferId;
    }

    @Override
    public String toString() {
      return requestId;
    }
  }

  PrefillServer(RigPrefiller rank) {
    this.rank = rank;
    this.blocks = new BlockPool(rank.cache().blocks());
  }

  /** The pattern that a transfer's blocks hold, another for each place. */
  static int pattern(String transferId, int place) {
    return transferId.hashCode() * 31 + place;
  }

  void announce(String transferId) {
    Send send = new Send(transferId);
    rank.announce(send.requestId, transferId);
  }

  /** The prefill has ended, if there were blocks for it. */
  boolean ready(String transferId, int count, SplittableRandom random) {
    Send send = new Send(transferId);
    int[] taken = blocks.take(count, send, random);
    if (taken == null) {
      return false;
    }
    send.blocks = taken;
    send.ready = true;
    for (int i = 0; i < count; i++) {
      rank.cache().fill(pattern(transferId, i), taken[i]);
    }
    unended.put(send.requestId, send);
    rank.ready(send.requestId, transferId, taken);
    return true;
  }

  /** Before it is ready, or after: then the connector gives the blocks back. */
  void cancel(String transferId) {
    rank.cancel("p-" + transferId, transferId, "given up");
  }

  /** Frees what the connector gives back. */
  void takeResults() {
    for (StepResult.Sent sent : rank.results().sent()) {
      Send send = unended.remove(sent.requestId());
      if (send == null) {
        throw new AssertionError("ended twice, or never begun: " + sent);
      }
      blocks.free(send.blocks, send);
    }
  }

  List<String> unended() {
    return new ArrayList<>(unended.keySet());
  }
}
