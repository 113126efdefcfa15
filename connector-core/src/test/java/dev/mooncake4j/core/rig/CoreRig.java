package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.core.discovery.AllowedHosts;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.producer.ManualTransfers.WriteWatch;
import dev.mooncake4j.core.producer.Producer;
import dev.mooncake4j.testkit.InMemoryNetwork;
import dev.mooncake4j.testkit.InMemoryTransferEngine;
import dev.mooncake4j.testkit.ManualClock;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A prefiller's engine and a decoder's, each of one or more ranks, on one thread: the real halves
 * of the protocol and the real loop, on a clock, a network and engine threads in the test's hand.
 *
 * <p>Calls of the ranks post, as in production; {@link #settle} has everything run that can run
 * without time passing, {@link #advance} lets time pass and stops at each deadline on the way.
 */
public final class CoreRig implements AutoCloseable {
  /** Engine id of the rig's prefiller. */
  public static final String ENGINE_ID = "prefiller-engine";

  /** Where the rig's prefiller is registered. */
  public static final String BOOTSTRAP = "http://127.0.0.1:8998";

  private static final int MOST_TURNS = 10_000;

  private final RigOptions options;
  private final ManualClock clock = new ManualClock();
  private final FakeNetwork network = new FakeNetwork();
  private final FakeBootstrap bootstrap = new FakeBootstrap();
  private final InMemoryNetwork engines = new InMemoryNetwork();
  private final Arena arena;
  private final List<RigPrefiller> prefillers = new ArrayList<>();
  private final List<RigDecoder> decoders = new ArrayList<>();
  private final List<Runnable> others = new ArrayList<>();
  private WriteWatch watch = (source, destination, length) -> {};

  /** A rig of this shape, whose bootstrap server knows its prefiller and answers at once. */
  public CoreRig(RigOptions options) {
    this.options = options;
    // A shared one can be read by other threads, and is slow to close.
    this.arena = options.integrityCheck() ? Arena.ofShared() : Arena.ofConfined();
    for (int tp = 0; tp < options.prefillerTp(); tp++) {
      prefillers.add(
          new RigPrefiller(
              this,
              new RankLayout(tp, options.prefillerTp(), 0, 1, 0),
              newCache(options.prefillerTp()),
              newEngine(),
              new Producer.Settings(
                  options.abortTimeout(),
                  options.lease(),
                  options.identity().prefiller(),
                  AllowedHosts.of("peer_allowed_hosts", options.identity().allowedPeers()))));
    }
    for (int tp = 0; tp < options.decoderTp(); tp++) {
      decoders.add(
          new RigDecoder(
              this,
              new RankLayout(tp, options.decoderTp(), 0, 1, 0),
              newCache(options.decoderTp()),
              newEngine(),
              decoderConfig(options)));
    }
    if (!prefillers.isEmpty()) {
      bootstrap.answerAlways(List.of(addresses()));
    }
  }

  private static ConnectorConfig decoderConfig(RigOptions options) {
    ConnectorConfig.Builder builder =
        ConnectorConfig.builder()
            .role(KvRole.CONSUMER)
            .host(RigPrefiller.HOST)
            .environment(Map.of())
            .integrityCheck(options.integrityCheck())
            .peerAllowedHosts(options.identity().allowedPeers())
            .abortRequestTimeout(options.abortTimeout());
    String fingerprint = options.identity().decoder();
    if (fingerprint != null) {
      builder.kvCacheFingerprint(fingerprint);
    }
    Duration lease = options.lease();
    return lease == null ? builder.build() : builder.leaseDuration(lease).build();
  }

  /** A rig of one rank each. */
  public static CoreRig single() {
    return new CoreRig(RigOptions.defaults());
  }

  /** Memory of this rig for one of {@code tpSize} ranks. */
  TestCache newCache(int tpSize) {
    int bytes = RigOptions.HEADS * RigOptions.HEAD_BYTES / tpSize;
    return new TestCache(arena, 2, options.blocks(), bytes, options.spec());
  }

  InMemoryTransferEngine newEngine() {
    return engines.open(new EngineConfig(RigPrefiller.HOST, "tcp", List.of(), null, clock));
  }

  /** The prefiller's engine as its bootstrap server tells it. */
  public EngineAddresses addresses() {
    return engineAt(prefillers.stream().map(RigPrefiller::address).toArray(String[]::new));
  }

  /** The same engine with its tensor-parallel ranks at these addresses. */
  public static EngineAddresses engineAt(String... byTpRank) {
    Map<Integer, Map<Integer, String>> ranks = new HashMap<>();
    for (int tp = 0; tp < byTpRank.length; tp++) {
      ranks.put(tp, Map.of(0, byTpRank[tp]));
    }
    return new EngineAddresses(0, ENGINE_ID, ranks);
  }

  /** A decoder that the test plays itself. */
  public RawDecoder rawDecoder() {
    return rawDecoder(0, 1);
  }

  /** A rank of a decoder that the test plays itself. */
  public RawDecoder rawDecoder(int tpRank, int tpSize) {
    RawDecoder raw = new RawDecoder(this, tpRank, tpSize);
    others.add(raw::poll);
    return raw;
  }

  /** A prefiller rank that the test plays itself; the bootstrap server is not told of it. */
  public RawPrefiller rawPrefiller() {
    RawPrefiller raw = new RawPrefiller(network);
    others.add(raw::poll);
    return raw;
  }

  /** Sees every copy of every prefiller before it is made. */
  public void watchWrites(WriteWatch writeWatch) {
    watch = writeWatch;
  }

  void onWrite(long source, long destination, long length) {
    watch.onWrite(source, destination, length);
  }

  /** One turn of everything. */
  public void turn() {
    prefillers.forEach(RigPrefiller::turn);
    decoders.forEach(RigDecoder::turn);
    others.forEach(Runnable::run);
  }

  /** Turns until nothing more happens without time, the test or an engine going on. */
  public void settle() {
    for (int turns = 0; turns < MOST_TURNS; turns++) {
      turn();
      if (!network.hasDeliverable() && loops().stream().allMatch(l -> l.untilNext(1) > 0)) {
        return;
      }
    }
    throw new AssertionError("no rest after turns=" + MOST_TURNS);
  }

  /** Lets time pass, and everything happen at its moment on the way. */
  public void advance(Duration time) {
    settle();
    long left = time.toNanos();
    while (left > 0) {
      long step = left;
      for (EventLoop loop : loops()) {
        step = loop.untilNext(step);
      }
      clock.advance(Duration.ofNanos(step));
      left -= step;
      settle();
    }
  }

  /** Lets seconds pass. */
  public void advanceSeconds(double seconds) {
    advance(Duration.ofNanos((long) (seconds * 1e9)));
  }

  private List<EventLoop> loops() {
    List<EventLoop> loops = new ArrayList<>();
    prefillers.forEach(p -> loops.add(p.loop()));
    decoders.forEach(d -> loops.add(d.loop()));
    return loops;
  }

  /** Its shape. */
  public RigOptions options() {
    return options;
  }

  /** The clock of all. */
  public ManualClock clock() {
    return clock;
  }

  /** The side channels. */
  public FakeNetwork network() {
    return network;
  }

  /** The bootstrap server. */
  public FakeBootstrap bootstrap() {
    return bootstrap;
  }

  /** The first prefiller rank. */
  public RigPrefiller prefiller() {
    return prefillers.getFirst();
  }

  /** A prefiller rank. */
  public RigPrefiller prefiller(int tpRank) {
    return prefillers.get(tpRank);
  }

  /** The first decoder rank. */
  public RigDecoder decoder() {
    return decoders.getFirst();
  }

  /** A decoder rank. */
  public RigDecoder decoder(int tpRank) {
    return decoders.get(tpRank);
  }

  @Override
  public void close() {
    arena.close();
  }
}
