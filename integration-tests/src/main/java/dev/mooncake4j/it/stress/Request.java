package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Outcome;
import org.jspecify.annotations.Nullable;

/** One request as the driver knows it: two halves, each of which has to end. One thread. */
final class Request {
  final long n;
  final Kind kind;
  final long began = System.nanoTime();
  final Half send;
  final Half pull;

  /** What happens to it at one peer. */
  static final class Half {
    final Peer peer;

    /** The peer's process at the time. */
    final @Nullable Child child;

    /** When it was given to the peer; 0 before. */
    long since;

    /** How it ended; null while it has not. */
    @Nullable Outcome outcome;

    /** Whether nothing more is to come. */
    boolean over;

    Half(Peer peer) {
      this.peer = peer;
      this.child = peer.child;
    }
  }

  Request(long n, Kind kind, Peer prefiller, Peer decoder) {
    this.n = n;
    this.kind = kind;
    this.send = new Half(prefiller);
    this.pull = new Half(decoder);
  }

  boolean isOver() {
    return send.over && pull.over;
  }

  Half half(Child child) {
    return send.child == child ? send : pull;
  }

  @Override
  public String toString() {
    return "request=" + n + " kind=" + kind + " " + send.peer.name + "->" + pull.peer.name;
  }
}
