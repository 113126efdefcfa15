package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.discovery.PrefillerDirectory;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.PlanException;
import dev.mooncake4j.core.plan.RankPairing;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The decoder's half: asks prefillers for blocks and settles each request once.
 *
 * <p>Owned by the worker loop: every method runs there. A request settles when every prefiller rank
 * that was asked has answered; it has failed if any has failed, and is reported only when none can
 * write into its blocks any more. Longer than most classes, since every way in which a pull can go
 * on or end meets here and has this one owner; what can stand alone does ({@link PullRecord},
 * {@link RankPull}, {@link PrefillerConnections}, {@link LeaseRenewer}).
 */
public final class Consumer {
  private static final Logger LOG = LoggerFactory.getLogger(Consumer.class);

  /** Beyond a prefiller's own wait, as in vLLM: silence past it is a failure. */
  private static final long ANSWER_MARGIN_NANOS = TimeUnit.SECONDS.toNanos(60);

  /**
   * How long the blocks of a failed pull are held where the prefiller gives no proof that it has
   * stopped writing. vLLM was seen to write for 0.2 s after it had told the failure.
   */
  static final long QUARANTINE_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** The answer to a release or a renewal is not waited for longer. */
  private static final long COURTESY_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** Prefiller ranks that are known to have our layout; past it the layout is sent again. */
  private static final int MAX_KEPT_LAYOUTS = 4096;

  private final EventLoop loop;
  private final RankLayout rank;
  private final Duration abortTimeout;
  private final PrefillerDirectory directory;
  private final PrefillerConnections connections;
  private final ResultQueue results;
  private final TransferListener listener;
  private final @Nullable LeaseRenewer leases;

  private final Map<String, PullRecord> pulls = new HashMap<>();
  private final Map<String, PullRecord> byTransfer = new HashMap<>();
  private final Set<PullRecord> releases = new HashSet<>();
  private final Set<RankPull> rankPulls = new HashSet<>();
  private final Set<String> layoutKeptBy = new HashSet<>();
  private @Nullable LocalEngine local;
  private int quarantinedBlocks;
  private boolean closed;

  /** A consumer that asks through {@code channel}. */
  public Consumer(
      EventLoop loop,
      RankLayout rank,
      ConnectorConfig config,
      PrefillerDirectory directory,
      SideChannel channel,
      ResultQueue results,
      TransferListener listener) {
    this.loop = loop;
    this.rank = rank;
    this.abortTimeout = config.abortRequestTimeout();
    this.directory = directory;
    this.connections = new PrefillerConnections(loop, channel);
    this.results = results;
    this.listener = listener;
    Duration lease = config.leaseDuration();
    this.leases = lease == null ? null : new LeaseRenewer(loop, lease, this::tell);
  }

  /** The caches are registered: pulls can be made, under a new layout id. */
  public void attach(LocalEngine engine) {
    local = engine;
    layoutKeptBy.clear();
  }

  /** The caches are no longer registered: new pulls fail until they are again. */
  public void detach() {
    local = null;
  }

  /** Takes the arrivals and pulls of a step. */
  public void step(StepPlan plan) {
    if (leases != null && !closed) {
      plan.arrivals().forEach(leases::watch);
    }
    Map<EngineKey, List<PullRecord>> byEngine = new LinkedHashMap<>();
    for (StepPlan.Pull pull : plan.pulls()) {
      PullRecord record = accept(pull);
      if (record != null) {
        int turn = 0;
        List<PullRecord> group = group(byEngine, pull, turn);
        while (holds(group, pull.requestId())) {
          turn++;
          group = group(byEngine, pull, turn);
        }
        group.add(record);
      }
    }
    byEngine.forEach(this::resolve);
    for (String requestId : plan.cancelledPulls()) {
      PullRecord record = pulls.get(requestId);
      if (record != null) {
        cancel(record);
      }
    }
  }

  /** Requests that may go in one pull; {@code turn} keeps two of one request id apart. */
  private record EngineKey(String engineId, String bootstrapAddress, int turn) {}

  private static List<PullRecord> group(
      Map<EngineKey, List<PullRecord>> byEngine, StepPlan.Pull pull, int turn) {
    return byEngine.computeIfAbsent(
        new EngineKey(pull.remoteEngineId(), pull.remoteBootstrapAddr(), turn),
        k -> new ArrayList<>());
  }

  private static boolean holds(List<PullRecord> group, String requestId) {
    for (PullRecord record : group) {
      if (record.pull.requestId().equals(requestId)) {
        return true;
      }
    }
    return false;
  }

  private @Nullable PullRecord accept(StepPlan.Pull pull) {
    PullRecord record = new PullRecord(pull);
    PullRecord same = pulls.get(pull.requestId());
    if (same != null && !record.releasesOnly()) {
      LOG.warn(
          "request_id={} transfer_id={} is being fetched already: ignored",
          pull.requestId(),
          pull.transferId());
      return null;
    }
    PullRecord other = byTransfer.get(pull.transferId());
    String unfit = null;
    LocalEngine engine = local;
    if (closed) {
      unfit = "the connector is closing";
    } else if (other != null) {
      unfit =
          "transfer_id="
              + pull.transferId()
              + " is in use by request_id="
              + other.pull.requestId()
              + ": give each request its own";
    } else if (engine == null) {
      unfit = "no kv caches are registered: call registerKvCaches first";
    } else if (!record.releasesOnly()) {
      unfit = engine.problemWith(pull.blocks());
    }
    if (!record.releasesOnly()) {
      pulls.put(pull.requestId(), record);
    }
    if (unfit != null) {
      record.settleUnasked();
      record.fail(closed ? FailureStage.SHUTDOWN : FailureStage.REQUEST, unfit, null);
      settled(record);
      return null;
    }
    byTransfer.put(pull.transferId(), record);
    if (record.releasesOnly()) {
      releases.add(record);
    }
    return record;
  }

  private void resolve(EngineKey engine, List<PullRecord> records) {
    directory.find(
        engine.engineId(),
        engine.bootstrapAddress(),
        PrefillerDirectory.answer(
            addresses -> ask(engine, addresses, records),
            reason -> {
              for (PullRecord record : records) {
                failUnasked(record, FailureStage.BOOTSTRAP, reason, engine.bootstrapAddress());
              }
            }));
  }

  private void failUnasked(
      PullRecord record, FailureStage stage, String reason, @Nullable String peer) {
    if (record.state() == PullRecord.State.RESOLVING) {
      record.fail(stage, reason, peer);
      record.settleUnasked();
      settled(record);
    }
  }

  private void ask(EngineKey engine, EngineAddresses addresses, List<PullRecord> records) {
    List<PullRecord> live = new ArrayList<>();
    for (PullRecord record : records) {
      if (record.state() == PullRecord.State.RESOLVING) {
        live.add(record);
      }
    }
    if (live.isEmpty()) {
      return;
    }
    List<String> targets;
    try {
      targets = targets(addresses);
    } catch (PlanException e) {
      for (PullRecord record : live) {
        failUnasked(
            record, FailureStage.PLAN, String.valueOf(e.getMessage()), engine.bootstrapAddress());
      }
      return;
    }
    for (String target : targets) {
      if (!PrefillerConnections.isUsable(target)) {
        String reason = "addr=" + target + " of engine_id=" + engine.engineId() + " is not usable";
        live.forEach(r -> failUnasked(r, FailureStage.BOOTSTRAP, reason, target));
        return;
      }
    }
    for (PullRecord record : live) {
      record.asked(targets.size());
    }
    for (int i = 0; i < targets.size(); i++) {
      String target = targets.get(i);
      RankPull pull =
          new RankPull(this, i, target, engine.engineId(), engine.bootstrapAddress(), live);
      rankPulls.add(pull);
      pull.start(!layoutKeptBy.contains(target));
    }
  }

  /** The prefiller ranks that this rank pulls from: its own stage, or all where stages differ. */
  private List<String> targets(EngineAddresses addresses) {
    List<String> targets = new ArrayList<>();
    for (int tp : RankPairing.targetRanks(rank.tpRank(), rank.tpSize(), addresses.tpSize())) {
      for (int stage : RankPairing.targetStages(rank.ppRank(), rank.ppSize(), addresses.ppSize())) {
        targets.add(addresses.address(tp, stage));
      }
    }
    return targets;
  }

  /** The server gives a request up. */
  private void cancel(PullRecord record) {
    if (record.isAborted() || record.state() == PullRecord.State.ENDED) {
      return;
    }
    record.abort();
    tellReleased(record);
    if (record.state() == PullRecord.State.RESOLVING) {
      record.settleUnasked();
      settled(record);
    }
  }

  /** Lets a transfer go, for the server or a router. */
  public void release(String transferId) {
    PullRecord record = byTransfer.get(transferId);
    if (record != null) {
      cancel(record);
    }
  }

  private void tellReleased(PullRecord record) {
    tell(
        record.pull.remoteEngineId(),
        record.pull.remoteBootstrapAddr(),
        WireCodec.encode(new ReleaseRequest(List.of(record.pull.transferId()))),
        (address, response) -> {});
  }

  /** Sends a courtesy to every rank of an engine that this rank pairs with. */
  private void tell(
      String engineId, String bootstrapAddress, byte[] message, LeaseRenewer.Answers answers) {
    directory.find(
        engineId,
        bootstrapAddress,
        PrefillerDirectory.answer(
            addresses -> {
              if (closed) {
                return;
              }
              try {
                for (String target : targets(addresses)) {
                  if (PrefillerConnections.isUsable(target)) {
                    new Courtesy(target, message, answers).start();
                  }
                }
              } catch (PlanException e) {
                LOG.debug("engine_id={} is not told: it does not pair with us", engineId, e);
              }
            },
            reason -> LOG.debug("engine_id={} is not told: {}", engineId, reason)));
  }

  /** A message that nothing waits for: if it fails, time does the rest. */
  private final class Courtesy implements Exchange {
    private final String target;
    private final byte[] message;
    private final LeaseRenewer.Answers answers;
    private @Nullable Deadline deadline;

    Courtesy(String target, byte[] message, LeaseRenewer.Answers answers) {
      this.target = target;
      this.message = message;
      this.answers = answers;
    }

    void start() {
      ChannelConnection connection = connections.ask(target, message, this);
      if (connection != null) {
        deadline = loop.schedule(COURTESY_NANOS, () -> connections.abandon(connection));
      }
    }

    @Override
    public boolean onReply(byte[] payload) {
      cancelDeadline();
      try {
        answers.answered(target, WireCodec.decodeResponse(payload));
      } catch (MalformedMessageException e) {
        LOG.debug("addr={} has answered a courtesy with nonsense", target, e);
      }
      return true;
    }

    @Override
    public void onClosed(String reason, boolean wasConnected) {
      cancelDeadline();
    }

    private void cancelDeadline() {
      if (deadline != null) {
        deadline.cancel();
      }
    }
  }

  // What RankPull tells.

  byte[] encode(List<PullRecord> records, boolean withLayout) {
    LocalEngine engine = local;
    if (engine == null) {
      throw new IllegalStateException("no kv caches are registered");
    }
    List<PullEntry> entries = new ArrayList<>(records.size());
    for (PullRecord record : records) {
      BlockIds blocks = record.releasesOnly() ? BlockIds.none() : record.pull.blocks();
      entries.add(new PullEntry(record.pull.requestId(), record.pull.transferId(), blocks));
    }
    return WireCodec.encode(
        new PullRequest(
            engine.host(),
            engine.port(),
            rank.tpSize(),
            rank.tpRank(),
            entries,
            withLayout ? engine.layout() : engine.noLayout(),
            rank.ppSize(),
            engine.layoutId()));
  }

  @Nullable ChannelConnection ask(RankPull pull, byte[] question) {
    return connections.ask(pull.address(), question, pull);
  }

  boolean askAgain(ChannelConnection connection, byte[] question) {
    return connections.askAgain(connection, question);
  }

  void abandon(ChannelConnection connection) {
    connections.abandon(connection);
  }

  Deadline schedulePullDeadline(Runnable action) {
    return loop.schedule(abortTimeout.toNanos() + ANSWER_MARGIN_NANOS, action);
  }

  void finished(RankPull pull) {
    rankPulls.remove(pull);
  }

  long layoutId() {
    LocalEngine engine = local;
    return engine == null ? 0 : engine.layoutId();
  }

  void layoutKept(String address) {
    if (layoutKeptBy.size() >= MAX_KEPT_LAYOUTS) {
      layoutKeptBy.clear();
    }
    layoutKeptBy.add(address);
  }

  void layoutLost(String address) {
    layoutKeptBy.remove(address);
  }

  /** A rank could not be reached at all: what is known of its engine may be old. */
  void unreachable(RankPull pull, String reason) {
    directory.forget(pull.engineId);
    layoutKeptBy.remove(pull.address());
    String text = "the prefiller cannot be reached: " + reason;
    if (!pull.mayAskAgain() || closed) {
      pull.failAll(FailureStage.SIDE_CHANNEL, text, false);
      return;
    }
    directory.find(
        pull.engineId,
        pull.bootstrapAddress,
        PrefillerDirectory.answer(
            addresses -> {
              String moved = movedTo(pull, addresses);
              if (moved == null) {
                pull.failAll(FailureStage.SIDE_CHANNEL, text, false);
              } else {
                pull.restartAt(moved, !layoutKeptBy.contains(moved));
              }
            },
            why -> pull.failAll(FailureStage.SIDE_CHANNEL, text + "; " + why, false)));
  }

  /** Where the rank at a dead address is now; nothing if it has not moved. */
  private @Nullable String movedTo(RankPull pull, EngineAddresses addresses) {
    try {
      List<String> targets = targets(addresses);
      if (pull.index < targets.size()) {
        String now = targets.get(pull.index);
        return !now.equals(pull.address()) && PrefillerConnections.isUsable(now) ? now : null;
      }
    } catch (PlanException e) {
      LOG.debug("engine_id={} does not pair with this rank any more", pull.engineId, e);
    }
    return null;
  }

  void rankDone(PullRecord record) {
    if (record.answered()) {
      settled(record);
    }
  }

  void rankFailed(
      PullRecord record, FailureStage stage, String reason, String peer, boolean mayStillWrite) {
    record.fail(stage, reason, peer);
    if (mayStillWrite && !record.releasesOnly()) {
      record.unquietUntil(loop.now() + QUARANTINE_NANOS);
    }
    if (record.answered()) {
      settled(record);
    }
  }

  private void settled(PullRecord record) {
    long wait = record.untilQuiet(loop.now());
    if (record.isFailed() && wait > 0 && !closed) {
      int blocks = record.pull.blocks().totalSize();
      quarantinedBlocks += blocks;
      loop.schedule(
          wait,
          () -> {
            quarantinedBlocks -= blocks;
            end(record);
          });
      return;
    }
    end(record);
  }

  /** The one place where a pull ends. */
  private void end(PullRecord record) {
    record.ended();
    if (leases != null) {
      leases.settled(record.pull);
    }
    pulls.remove(record.pull.requestId(), record);
    releases.remove(record);
    byTransfer.remove(record.pull.transferId(), record);
    if (record.releasesOnly()) {
      if (record.isFailed()) {
        LOG.debug(
            "transfer_id={} could not be released: {}", record.pull.transferId(), record.reason());
      }
      return;
    }
    if (!record.isFailed()) {
      results.received(record.pull.requestId());
      return;
    }
    Failure failure =
        new Failure(
            record.pull.requestId(),
            record.pull.transferId(),
            record.stage(),
            record.reason(),
            record.peer(),
            record.pull.blocks());
    listener.receiveFailed(failure);
    results.failed(failure);
  }

  /** A frame from a prefiller. */
  public void onReply(ChannelConnection connection, byte[] payload) {
    connections.onReply(connection, payload);
  }

  /** A connection to a prefiller is gone. */
  public void onClosed(ChannelConnection connection, String reason, boolean wasConnected) {
    connections.onClosed(connection, reason, wasConnected);
  }

  /** Fails all that is under way. */
  public void close(String reason) {
    closed = true;
    for (RankPull pull : List.copyOf(rankPulls)) {
      pull.failAll(FailureStage.SHUTDOWN, reason, true);
    }
    for (PullRecord record : List.copyOf(byTransfer.values())) {
      failUnasked(record, FailureStage.SHUTDOWN, reason, null);
    }
    if (leases != null) {
      leases.close();
    }
    connections.close();
  }

  /** Leases that are renewed. */
  public int leases() {
    return leases == null ? 0 : leases.size();
  }

  /** Requests being fetched, or released. */
  public int pulls() {
    return pulls.size() + releases.size();
  }

  /** Blocks that a peer may still write to. */
  public int quarantinedBlocks() {
    return quarantinedBlocks;
  }

  /** Connections in use and kept, for leak checks. */
  public int connections() {
    return connections.busyCount() + connections.idleCount();
  }

  /** Answers that came after their question was given up. */
  public long lateReplies() {
    return connections.lateReplies();
  }
}
