package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Command;
import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.FromPeer;
import dev.mooncake4j.it.stress.Messages.ToPeer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;

/** All peers and their processes. Owned by the driver's loop, but for {@link #close()}. */
final class Fleet implements AutoCloseable {
  /** Short: some requests are left to run out. */
  static final Duration LEASE = Duration.ofSeconds(3);

  static final Duration ABORT_TIMEOUT = Duration.ofSeconds(20);

  final List<Peer> prefillers = new ArrayList<>();
  final List<Peer> decoders = new ArrayList<>();
  private final StressOptions options;
  private final Network network;
  private final Path folder;
  private final Executor loop;
  private final Listener listener;
  private final Set<Child> children = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;
  private boolean quitting;
  private int crashes;

  /** Who wants to know what becomes of the children. */
  interface Listener {
    /** A half of a request has ended. */
    void ended(Child child, Ended how);

    /** A child is gone, and all that it had. */
    void gone(Child child);

    /** Nobody wanted that. */
    void crashed(Child child, String lastWords);
  }

  Fleet(StressOptions options, Network network, Path folder, Executor loop, Listener listener) {
    this.options = options;
    this.network = network;
    this.folder = folder;
    this.loop = loop;
    this.listener = listener;
    for (int i = 0; i < options.prefillers(); i++) {
      prefillers.add(new Peer(i, "P" + (i + 1), true));
    }
    for (int i = 0; i < options.decoders(); i++) {
      decoders.add(new Peer(options.prefillers() + i, "D" + (i + 1), false));
    }
  }

  List<Peer> all() {
    List<Peer> all = new ArrayList<>(prefillers);
    all.addAll(decoders);
    return all;
  }

  /** Starts a peer's next process; requests are routed to it when it is ready. */
  void start(Peer peer) {
    peer.generation++;
    String name = peer.name + "." + peer.generation;
    List<String> command = new ArrayList<>(network.runIn(peer.index));
    command.addAll(
        List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "--enable-native-access=ALL-UNNAMED",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-CreateCoredumpOnCrash",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            System.getProperty(
                "surefire.test.class.path", System.getProperty("java.class.path", "")),
            StressPeer.class.getName(),
            peer.prefiller ? "kv_producer" : "kv_consumer",
            network.host(peer.index),
            "" + peer.bootstrapPort(),
            "" + LEASE.toMillis(),
            "" + ABORT_TIMEOUT.toMillis(),
            "" + (options.seed() + 31L * peer.index + peer.generation)));
    Child child =
        Child.start(
            name,
            command,
            folder.resolve(name),
            (from, message) -> loop.execute(() -> told(peer, from, message)),
            ended -> loop.execute(() -> ended(peer, ended)));
    children.add(child);
    peer.child = child;
    if (closed) {
      child.kill();
    }
  }

  private void told(Peer peer, Child from, FromPeer message) {
    if (peer.child == from) {
      Messages.Ready ready = message.ready();
      if (ready != null) {
        peer.isReady(ready);
      }
      Messages.State state = message.state();
      if (state != null) {
        peer.state = state;
      }
    }
    for (Ended ended : message.ended()) {
      listener.ended(from, ended);
    }
  }

  private void ended(Peer peer, Child child) {
    child.setGone();
    listener.gone(child);
    boolean expected = quitting || peer.inTrouble || peer.child != child;
    if (!expected && !closed) {
      peer.routed = false;
      crashes++;
      listener.crashed(child, child.lastWords());
    }
  }

  /** Kills a peer's process; it is routed to until somebody changes that. */
  void kill(Peer peer) {
    peer.inTrouble = true;
    Child child = peer.child;
    if (child != null) {
      child.kill();
      children.remove(child);
    }
  }

  boolean allReady() {
    return crashes > 0 || all().stream().allMatch(peer -> peer.routed && !peer.inTrouble);
  }

  int crashes() {
    return crashes;
  }

  /** Asks every peer for its figures. */
  void askStates() {
    for (Peer peer : all()) {
      Child child = peer.child;
      peer.state = null;
      if (child != null) {
        child.tell(ToPeer.of(Command.STATE));
      }
    }
  }

  boolean allAnswered() {
    return crashes > 0 || all().stream().allMatch(peer -> peer.state != null);
  }

  /** Tells every peer to end. */
  void quit() {
    quitting = true;
    for (Child child : children) {
      child.tell(ToPeer.of(Command.QUIT));
    }
  }

  boolean allGone() {
    return children.stream().noneMatch(Child::isAlive);
  }

  /** Children that have not ended as they should, with the code that they ended with. */
  List<String> badEnds() {
    List<String> bad = new ArrayList<>();
    for (Child child : children) {
      if (child.isAlive()) {
        bad.add(child.name + " does not end");
      } else if (child.exitCode() != 0) {
        bad.add(child.name + " exit_code=" + child.exitCode() + " " + child.lastWords());
      }
    }
    return bad;
  }

  /** Kills what lives; from any thread. */
  @Override
  public void close() {
    closed = true;
    children.forEach(Child::kill);
  }
}
