package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * What became of transfers that are over, for a while: a decoder that asks late is told at once
 * instead of being made to wait. Owned by the worker loop.
 */
final class Tombstones {
  /** Longer than a decoder's queue usually is, shorter than an id is likely to come again. */
  private static final long KEPT_NANOS = TimeUnit.SECONDS.toNanos(120);

  /** Some 20 MB at worst; past it the oldest are forgotten. */
  static final int MAX = 100_000;

  /**
   * One of them.
   *
   * @param text for a decoder that asks
   * @param releasedUnseen whether it was let go before this prefiller had heard of it
   */
  record Tombstone(String text, boolean releasedUnseen, long until) {}

  private final EventLoop loop;
  private final Map<String, Tombstone> byTransfer = new LinkedHashMap<>();
  private @Nullable Deadline sweep;

  /** What is told of one that is not kept. */
  private String otherwise = "is over";

  Tombstones(EventLoop loop) {
    this.loop = loop;
  }

  void put(String transferId, String text, boolean releasedUnseen) {
    byTransfer.remove(transferId);
    byTransfer.put(transferId, new Tombstone(text, releasedUnseen, loop.now() + KEPT_NANOS));
    if (byTransfer.size() > MAX) {
      Iterator<String> oldest = byTransfer.keySet().iterator();
      oldest.next();
      oldest.remove();
    }
    if (sweep == null) {
      sweep = loop.schedule(KEPT_NANOS, this::sweep);
    }
  }

  @Nullable Tombstone get(String transferId) {
    return byTransfer.get(transferId);
  }

  /** What became of a transfer that is over or ending, for a decoder that asks. */
  String past(String transferId) {
    Tombstone past = byTransfer.get(transferId);
    return "transfer_id=" + transferId + " " + (past == null ? otherwise : past.text());
  }

  @Nullable Tombstone remove(String transferId) {
    return byTransfer.remove(transferId);
  }

  int size() {
    return byTransfer.size();
  }

  /** Forgets all: of any transfer this is told from now on. */
  void close(String reason) {
    otherwise = reason;
    clear();
  }

  void clear() {
    byTransfer.clear();
    if (sweep != null) {
      sweep.cancel();
      sweep = null;
    }
  }

  private void sweep() {
    sweep = null;
    long now = loop.now();
    Iterator<Tombstone> oldestFirst = byTransfer.values().iterator();
    while (oldestFirst.hasNext()) {
      Tombstone tombstone = oldestFirst.next();
      if (tombstone.until() - now > 0) {
        sweep = loop.schedule(tombstone.until() - now, this::sweep);
        return;
      }
      oldestFirst.remove();
    }
  }
}
