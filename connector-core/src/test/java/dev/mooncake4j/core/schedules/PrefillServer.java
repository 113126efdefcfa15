package dev.mooncake4j.core.schedules;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.producer.ManualTransfers.Transfer;
import dev.mooncake4j.core.rig.RigPrefiller;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** The server around one prefiller rank: what it was told, and what it must be told. */
final class PrefillServer {
  final RigPrefiller rank;
  final BlockPool blocks;
  private final Map<String, Send> unended = new HashMap<>();
  private int givenUpDuringWrite;
  private int begunAnewDuringWrite;

  /** A prefill, with the blocks that the connector holds once it has ended. */
  static final class Send {
    final String transferId;
    final String requestId;
    int[] blocks = {};

    /** Those that it had before it began anew in others: they are kept with these. */
    final List<int[]> former = new ArrayList<>();

    boolean ready;

    /** Its first blocks that are finished while the prefill goes on; -1 where none were told. */
    int finished = -1;

    int restarts;
    boolean givenUp;

    /** What it computes is lost before its end: other bytes than those that must arrive. */
    boolean spoiled;

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

  /**
   * Some more blocks of a prefill are finished, if there were blocks for it; or it begins anew. An
   * unfinished block holds nothing of the prompt, and never what it will.
   */
  void progress(String transferId, int count, SplittableRandom random) {
    Send send = unended.get("p-" + transferId);
    if (send == null) {
      send = new Send(transferId);
      int[] taken = blocks.take(count, send, random);
      if (taken == null) {
        return;
      }
      send.blocks = taken;
      send.spoiled = random.nextInt(3) == 0;
      for (int block : taken) {
        rank.cache().fill(-2, block);
      }
      unended.put(send.requestId, send);
    }
    if (send.ready || send.givenUp) {
      return;
    }
    if (send.finished > 0 && random.nextInt(6) == 0) {
      if (isWritten(transferId)) {
        begunAnewDuringWrite++;
      }
      if (random.nextBoolean()) {
        takeOthers(send, random);
      }
      beginAnew(send);
    } else {
      int before = Math.max(send.finished, 0);
      send.finished = before + random.nextInt(count - before + 1);
      fill(send, before, send.finished);
    }
    tell(send);
  }

  /** What it had is kept: a write that is under way may still read it. */
  private void takeOthers(Send send, SplittableRandom random) {
    int[] others = blocks.take(send.blocks.length, send, random);
    if (others != null) {
      send.former.add(send.blocks);
      send.blocks = others;
    }
  }

  private void beginAnew(Send send) {
    for (int block : send.blocks) {
      rank.cache().fill(-3, block);
    }
    for (int[] former : send.former) {
      rank.cache().fill(-5, former);
    }
    send.finished = 0;
    send.restarts++;
    send.spoiled = false;
  }

  private void tell(Send send) {
    rank.progress(
        new StepPlan.Progress(
            send.requestId,
            send.transferId,
            send.restarts,
            BlockIds.ofGroups(Arrays.copyOf(send.blocks, send.finished)),
            // Now and then the server has told another total than there is in the end.
            List.of(send.blocks.length + (send.transferId.hashCode() % 7 == 0 ? 1 : 0))));
  }

  private void fill(Send send, int from, int to) {
    for (int i = from; i < to; i++) {
      int pattern = send.spoiled ? -4 : pattern(send.transferId, i);
      rank.cache().fill(pattern, send.blocks[i]);
    }
  }

  /** The prefill has ended, if there were blocks for it. */
  boolean ready(String transferId, int count, SplittableRandom random) {
    Send send = unended.get("p-" + transferId);
    if (send == null) {
      send = new Send(transferId);
      int[] taken = blocks.take(count, send, random);
      if (taken == null) {
        return false;
      }
      send.blocks = taken;
    }
    if (send.spoiled) {
      beginAnew(send);
      tell(send);
    }
    fill(send, Math.max(send.finished, 0), count);
    send.ready = true;
    unended.put(send.requestId, send);
    rank.ready(send.requestId, transferId, send.blocks);
    return true;
  }

  /** Before it is ready, or after: where it has blocks, the connector gives them back. */
  void cancel(String transferId) {
    Send send = unended.get("p-" + transferId);
    if (send != null && !send.ready && !send.givenUp) {
      send.givenUp = true;
      if (isWritten(transferId)) {
        givenUpDuringWrite++;
      }
      rank.giveUp(send.requestId, transferId, "given up");
    } else if (send == null || !send.givenUp) {
      rank.cancel("p-" + transferId, transferId, "given up");
    }
  }

  /** Frees what the connector gives back. */
  void takeResults() {
    for (StepResult.Sent sent : rank.results().sent()) {
      Send send = unended.remove(sent.requestId());
      if (send == null) {
        throw new AssertionError("ended twice, or never begun: " + sent);
      }
      if (isWritten(sent.transferId())) {
        throw new AssertionError("given back while a write reads its blocks: " + sent);
      }
      blocks.free(send.blocks, send);
      send.former.forEach(former -> blocks.free(former, send));
    }
  }

  private boolean isWritten(String transferId) {
    return rank.transfers().underWay().stream().anyMatch(t -> t.reads(transferId));
  }

  /** Whether a write reads blocks of a prefill that has not ended. */
  boolean isEarly(Transfer transfer) {
    return unended.values().stream().anyMatch(s -> !s.ready && transfer.reads(s.transferId));
  }

  /** Whether another write takes blocks of the same prefill to the same decoder. */
  boolean isBesideAnother(Transfer transfer) {
    return unended.values().stream()
        .filter(send -> transfer.reads(send.transferId))
        .anyMatch(
            send ->
                rank.transfers().underWay().stream()
                    .anyMatch(
                        other ->
                            !other.equals(transfer)
                                && other.reads(send.transferId)
                                && other.session().equals(transfer.session())));
  }

  /** Prefills that were given up while finished blocks of them were written. */
  int givenUpDuringWrite() {
    return givenUpDuringWrite;
  }

  /** Prefills that began anew while finished blocks of them were written. */
  int begunAnewDuringWrite() {
    return begunAnewDuringWrite;
  }

  List<String> unended() {
    return new ArrayList<>(unended.keySet());
  }
}
