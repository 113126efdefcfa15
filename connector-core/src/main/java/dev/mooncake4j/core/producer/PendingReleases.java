package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.channel.PeerIdentity;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Decoders that have let transfers go while these were being written. Each is answered when nothing
 * is written for any of them any more, so that the answer proves the decoder's blocks quiet. Owned
 * by the worker loop.
 */
final class PendingReleases {
  /** Past it a release is refused: a decoder asks once for each transfer that broke. */
  private static final int MAX = 65_536;

  private final Map<String, List<Pending>> byTransfer = new HashMap<>();
  private int size;

  /** One release, on its way to an answer. */
  static final class Pending {
    final PeerIdentity from;
    final List<String> held;
    final List<String> unknown;
    private int beingWritten;

    Pending(PeerIdentity from, List<String> held, List<String> unknown, int beingWritten) {
      this.from = from;
      this.held = held;
      this.unknown = unknown;
      this.beingWritten = beingWritten;
    }
  }

  boolean isFull() {
    return size >= MAX;
  }

  /** Waits for transfers, each named once. */
  void add(Pending pending, List<String> beingWritten) {
    for (String transferId : beingWritten) {
      byTransfer.computeIfAbsent(transferId, t -> new ArrayList<>()).add(pending);
    }
    size++;
  }

  /** A transfer's last write is over; returns the releases that can be answered now. */
  List<Pending> quiet(String transferId) {
    List<Pending> waiting = byTransfer.remove(transferId);
    if (waiting == null) {
      return List.of();
    }
    List<Pending> answerable = new ArrayList<>();
    for (Pending pending : waiting) {
      pending.beingWritten--;
      if (pending.beingWritten == 0) {
        answerable.add(pending);
        size--;
      }
    }
    return answerable;
  }

  int size() {
    return size;
  }
}
