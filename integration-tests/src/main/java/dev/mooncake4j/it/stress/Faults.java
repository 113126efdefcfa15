package dev.mooncake4j.it.stress;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/** What goes wrong, every minute anew. Owned by the driver's loop. */
final class Faults {
  /** A router finds out a little later that a peer is gone. */
  private static final int NOTICED_MILLIS = 500;

  private static final int STOPPED_MILLIS = 5000;

  /** Past the 8 s in which heartbeats notice it. */
  private static final int CUT_MILLIS = 12_000;

  private final Fleet fleet;
  private final Network network;
  private final FaultLog log;
  private final Timers timers;
  private final Random random;
  private final boolean killsOnly;
  private final long cycleMillis;
  private boolean ended;
  private boolean prefillerNext = true;
  private int underWay;
  int kills;
  int stops;
  int cuts;

  Faults(StressOptions options, Fleet fleet, Network network, FaultLog log, Timers timers) {
    this.fleet = fleet;
    this.network = network;
    this.log = log;
    this.timers = timers;
    this.random = new Random(~options.seed());
    this.killsOnly = !options.faults();
    this.cycleMillis = Math.min(60_000, options.load().toMillis());
  }

  /** Begins with the first minute. */
  void begin() {
    timers.after(cycleMillis * 15 / 100, this::kill);
    if (!killsOnly) {
      timers.after(cycleMillis * 40 / 100, this::stop);
      if (network.canCut()) {
        timers.after(cycleMillis * 65 / 100, this::cut);
      }
    }
    timers.after(
        cycleMillis,
        () -> {
          if (!ended) {
            begin();
          }
        });
  }

  /** No new ones. */
  void end() {
    ended = true;
  }

  /** Whether all that was done is undone. */
  boolean areOver() {
    return underWay == 0 && fleet.allReady();
  }

  private void kill() {
    Peer peer = ended ? null : draw(prefillerNext ? fleet.prefillers : fleet.decoders);
    if (peer == null) {
      return;
    }
    prefillerNext = !prefillerNext;
    kills++;
    underWay++;
    say("kills " + peer.child);
    FaultLog.Fault fault = log.at(peer);
    fleet.kill(peer);
    timers.after(
        NOTICED_MILLIS,
        () -> {
          peer.routed = false;
          fleet.start(peer);
          whenReady(peer, fault);
        });
  }

  private void whenReady(Peer peer, FaultLog.Fault fault) {
    if (peer.routed) {
      fault.over();
      underWay--;
    } else {
      timers.after(100, () -> whenReady(peer, fault));
    }
  }

  private void stop() {
    List<Peer> all = fleet.all();
    Peer peer = ended ? null : draw(all);
    Child child = peer == null ? null : peer.child;
    if (peer == null || child == null) {
      return;
    }
    stops++;
    underWay++;
    say("stops " + child + " for " + STOPPED_MILLIS / 1000 + " s");
    FaultLog.Fault fault = log.at(peer);
    peer.inTrouble = true;
    child.signal("STOP");
    timers.after(
        STOPPED_MILLIS,
        () -> {
          child.signal("CONT");
          peer.inTrouble = false;
          fault.over();
          underWay--;
        });
  }

  private void cut() {
    Peer prefiller = ended ? null : draw(fleet.prefillers);
    Peer decoder = ended ? null : draw(fleet.decoders);
    if (prefiller == null || decoder == null) {
      return;
    }
    cuts++;
    underWay++;
    say("cuts " + prefiller.name + " off " + decoder.name + " for " + CUT_MILLIS / 1000 + " s");
    FaultLog.Fault fault = log.between(prefiller, decoder);
    network.cut(prefiller.index, decoder.index);
    timers.after(
        CUT_MILLIS,
        () -> {
          network.heal(prefiller.index, decoder.index);
          fault.over();
          underWay--;
        });
  }

  /** One that is well; null if none is. */
  private @Nullable Peer draw(List<Peer> peers) {
    List<Peer> well = new ArrayList<>();
    for (Peer peer : peers) {
      if (peer.routed && !peer.inTrouble) {
        well.add(peer);
      }
    }
    return well.isEmpty() ? null : well.get(random.nextInt(well.size()));
  }

  private static void say(String what) {
    System.out.println("stress: " + what);
  }
}
