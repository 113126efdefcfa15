package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Ready;
import dev.mooncake4j.it.stress.Messages.State;
import java.net.URI;
import org.jspecify.annotations.Nullable;

/** One prefiller's or decoder's place, which one child after another has. One thread. */
final class Peer {
  final int index;
  final String name;
  final boolean prefiller;

  /** The one that requests are routed to; for a while after its death still that. */
  @Nullable Child child;

  /** What it said when it was ready. */
  @Nullable Ready ready;

  /** Whether requests are routed to it. */
  boolean routed;

  /** Whether it is being killed and restarted, or stopped. */
  boolean inTrouble;

  /** Its last figures, if it was asked and has answered. */
  @Nullable State state;

  /** Of the usual kind, not over at this peer. */
  int open;

  /** Where its bootstrap server was first, and is again after a restart. */
  private int bootstrapPort;

  int generation;

  Peer(int index, String name, boolean prefiller) {
    this.index = index;
    this.name = name;
    this.prefiller = prefiller;
  }

  int bootstrapPort() {
    return bootstrapPort;
  }

  void isReady(Ready told) {
    ready = told;
    String bootstrap = told.bootstrap();
    if (bootstrap != null) {
      bootstrapPort = URI.create(bootstrap).getPort();
    }
    routed = true;
    inTrouble = false;
  }
}
