package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.discovery.AllowedHosts;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.discovery.PrefillerDirectory;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.PlanException;
import dev.mooncake4j.core.plan.RankPairing;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.TransferDigest;
import dev.mooncake4j.core.wire.WireCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executor;
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
 * on or end meets here and has this one owner; what can stand alone does ({@link Settlements},
 * {@link RankPull}, {@link PrefillerConnections}, {@link LeaseRenewer}).
 */
public final class Consumer {
  private static final Logger LOG = LoggerFactory.getLogger(Consumer.class);

  /** Beyond a prefiller's own wait, as in vLLM: silence past it is a failure. */
  static final long ANSWER_MARGIN_NANOS = TimeUnit.SECONDS.toNanos(60);

  /** Prefiller ranks that are known to have our layout; past it the layout is sent again. */
  private static final int MAX_KEPT_LAYOUTS = 4096;

  private final EventLoop loop;
  private final RankLayout rank;
  private final Duration abortTimeout;
  private final PrefillerDirectory directory;
  private final PrefillerConnections connections;
  private final Courtesies courtesies;
  private final Settlements settlements;
  private final @Nullable LeaseRenewer leases;
  private final PrefillerWatch watch;
  private final AllowedHosts prefillerHosts;
  private final @Nullable String fingerprint;
  private final @Nullable IntegrityCheck integrity;

  private final PullGroups groups = new PullGroups();
  private final Set<RankPull> rankPulls = new LinkedHashSet<>();
  private final Set<QuietProof> proofs = new LinkedHashSet<>();
  private final Set<String> layoutKeptBy = new HashSet<>();
  private @Nullable LocalEngine local;
  private boolean closed;

  /**
   * A consumer that asks through {@code channel}.
   *
   * @param reader reads what has arrived, where the configuration wants it checked
   */
  public Consumer(
      EventLoop loop,
      RankLayout rank,
      ConnectorConfig config,
      PrefillerDirectory directory,
      SideChannel channel,
      ResultQueue results,
      TransferListener listener,
      Executor reader) {
    this.loop = loop;
    this.rank = rank;
    this.abortTimeout = config.abortRequestTimeout();
    this.directory = directory;
    this.connections = new PrefillerConnections(loop, channel);
    this.courtesies = new Courtesies(loop, connections);
    this.settlements = new Settlements(loop, results, listener, this::ended);
    Duration lease = config.leaseDuration();
    this.leases = lease == null ? null : new LeaseRenewer(loop, lease, this::renew);
    this.watch = new PrefillerWatch(loop, directory, connections);
    this.prefillerHosts = AllowedHosts.of("peer_allowed_hosts", config.peerAllowedHosts());
    this.fingerprint = config.kvCacheFingerprint();
    this.integrity = config.integrityCheck() ? new IntegrityCheck(loop, settlements, reader) : null;
  }

  private void ended(StepPlan.Pull pull) {
    if (leases != null) {
      leases.settled(pull);
    }
  }

  /** The caches are registered: pulls can be made, under a new layout id. */
  public void attach(LocalEngine engine) {
    askGrouped();
    local = engine;
    layoutKeptBy.clear();
  }

  /**
   * The caches are about to be given back: new pulls fail until they are registered again, those
   * under way go on to their end.
   */
  public void detach() {
    askGrouped();
    local = null;
  }

  /** Takes the arrivals and pulls of a step. */
  public void step(StepPlan plan) {
    if (leases != null && !closed) {
      plan.arrivals().forEach(leases::watch);
    }
    boolean first = groups.isEmpty();
    groups.nextStep();
    for (StepPlan.Pull pull : plan.pulls()) {
      PullRecord record = accept(pull);
      if (record != null) {
        record.finding();
        groups.add(record);
      }
    }
    if (first && !groups.isEmpty()) {
      // Due after the steps that wait behind this one: their pulls can go in the same questions.
      loop.schedule(0, this::askGrouped);
    }
    for (String requestId : plan.cancelledPulls()) {
      PullRecord record = settlements.byRequest(requestId);
      if (record != null) {
        cancel(record);
      }
    }
  }

  /** Asks for what the steps until now have brought, of the caches that are registered now. */
  private void askGrouped() {
    LocalEngine engine = local;
    List<PullGroups.Group> taken = groups.take();
    if (engine != null && !closed) {
      taken.forEach(group -> resolve(group, engine));
    }
  }

  private @Nullable PullRecord accept(StepPlan.Pull pull) {
    PullRecord record = new PullRecord(pull, loop.now());
    PullRecord same = settlements.byRequest(pull.requestId());
    if (same != null && !same.isAborted() && !same.isReported() && !record.releasesOnly()) {
      LOG.warn(
          "request_id={} transfer_id={} is being fetched already: ignored",
          pull.requestId(),
          pull.transferId());
      return null;
    }
    PullRecord other = settlements.byTransfer(pull.transferId());
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
    settlements.begin(record);
    if (unfit != null) {
      settlements.failUnasked(
          List.of(record), closed ? FailureStage.SHUTDOWN : FailureStage.REQUEST, unfit, null);
      return null;
    }
    settlements.claim(record);
    return record;
  }

  private void resolve(PullGroups.Group group, LocalEngine engine) {
    directory.find(
        group.engineId,
        group.bootstrapAddress,
        PrefillerDirectory.answer(
            addresses -> ask(group, engine, addresses),
            reason ->
                settlements.failUnasked(
                    group.records, FailureStage.BOOTSTRAP, reason, group.bootstrapAddress)));
  }

  private void ask(PullGroups.Group group, LocalEngine engine, EngineAddresses addresses) {
    List<PullRecord> unasked = new ArrayList<>();
    for (PullRecord record : group.records) {
      if (record.state() == PullRecord.State.RESOLVING) {
        unasked.add(record);
      }
    }
    if (unasked.isEmpty()) {
      return;
    }
    List<String> targets;
    try {
      targets = targets(addresses);
    } catch (PlanException e) {
      settlements.failUnasked(
          unasked, FailureStage.PLAN, String.valueOf(e.getMessage()), group.bootstrapAddress);
      return;
    }
    for (String target : targets) {
      String problem = problemWith(target);
      if (problem != null) {
        settlements.failUnasked(
            unasked,
            FailureStage.BOOTSTRAP,
            "addr=" + target + " of engine_id=" + group.engineId + problem,
            target);
        return;
      }
    }
    List<RankPull> started = new ArrayList<>();
    for (int i = 0; i < targets.size(); i++) {
      started.add(
          new RankPull(
              this, i, targets.get(i), group.engineId, group.bootstrapAddress, engine, unasked));
    }
    for (PullRecord record : unasked) {
      record.asked(targets.size());
      record.fetching(targets);
    }
    rankPulls.addAll(started);
    // One that cannot be asked fails at once, and the others then leave its requests out.
    started.forEach(RankPull::start);
  }

  /** Why an address that a bootstrap server told is not connected to, or {@code null}. */
  private @Nullable String problemWith(String address) {
    if (!PrefillerConnections.isUsable(address)) {
      return " is not usable";
    }
    String host = HostAddresses.hostOf(address.substring("tcp://".length()));
    return prefillerHosts.allow(host.toLowerCase(Locale.ROOT))
        ? null
        : " is not a host that may be connected to: add it to peer_allowed_hosts if it is one of"
            + " the cluster's";
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
      settlements.settleUnasked(record);
    }
  }

  /** Lets a transfer go, for the server or a router. */
  public void release(String transferId) {
    PullRecord record = settlements.byTransfer(transferId);
    if (record != null) {
      cancel(record);
    }
  }

  private void tellReleased(PullRecord record) {
    tell(
        record.pull.remoteEngineId(),
        record.pull.remoteBootstrapAddr(),
        address -> courtesies.release(address, List.of(record.pull.transferId())));
  }

  private void renew(
      String engineId, String bootstrapAddress, byte[] message, LeaseRenewer.Answers answers) {
    tell(engineId, bootstrapAddress, address -> courtesies.renew(address, message, answers));
  }

  /** Sends a courtesy to every rank of an engine that this rank pairs with. */
  private void tell(
      String engineId, String bootstrapAddress, java.util.function.Consumer<String> teller) {
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
                  if (problemWith(target) == null) {
                    teller.accept(target);
                  }
                }
              } catch (PlanException e) {
                LOG.debug("engine_id={} is not told: it does not pair with us", engineId, e);
              }
            },
            reason -> LOG.debug("engine_id={} is not told: {}", engineId, reason)));
  }

  // What RankPull and QuietProof need.

  /** A pull for one rank, as bytes. */
  byte[] encode(LocalEngine engine, List<PullRecord> records, boolean withLayout) {
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
            engine.layoutId(),
            fingerprint,
            integrity != null));
  }

  ChannelConnection ask(String address, byte[] question, Exchange exchange) {
    return connections.ask(address, question, exchange);
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

  Deadline schedule(long delayNanos, Runnable action) {
    return loop.schedule(delayNanos, action);
  }

  long now() {
    return loop.now();
  }

  void finished(RankPull pull) {
    rankPulls.remove(pull);
  }

  boolean isLayoutKept(String address, LocalEngine engine) {
    return isCurrent(engine) && layoutKeptBy.contains(address);
  }

  private boolean isCurrent(LocalEngine engine) {
    LocalEngine current = local;
    return current != null && current.layoutId() == engine.layoutId();
  }

  void layoutKept(String address, LocalEngine engine) {
    if (!isCurrent(engine)) {
      return;
    }
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
    directory.forget(pull.engineId, pull.bootstrapAddress);
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
                pull.restartAt(moved);
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
        return !now.equals(pull.address()) && problemWith(now) == null ? now : null;
      }
    } catch (PlanException e) {
      LOG.debug("engine_id={} does not pair with this rank any more", pull.engineId, e);
    }
    return null;
  }

  PrefillerWatch watch() {
    return watch;
  }

  /** A rank says that a request's bytes are here. */
  void arrived(PullRecord record, @Nullable TransferDigest digest, HostMemory memory, String peer) {
    if (integrity == null || record.releasesOnly()) {
      settlements.rankDone(record);
    } else {
      integrity.arrived(record, digest, memory, peer);
    }
  }

  /** The pulls, for a rank's answers. */
  Settlements settlements() {
    return settlements;
  }

  /** A rank has broken off, and may go on to write for these requests if it lives. */
  void rankBroken(
      List<PullRecord> records, FailureStage stage, String reason, String peer, long pullDeadline) {
    List<PullRecord> unquiet = new ArrayList<>();
    for (PullRecord record : records) {
      record.fail(stage, reason, peer);
      if (closed || record.releasesOnly()) {
        settlements.rankDone(record);
      } else {
        record.holdBack();
        unquiet.add(record);
      }
    }
    if (!unquiet.isEmpty()) {
      QuietProof proof = new QuietProof(this, peer, unquiet, pullDeadline);
      proofs.add(proof);
      proof.start();
    }
  }

  /**
   * Requests have failed at a rank that is out of reach, so that no other rank can save them: those
   * that have not answered are told, and need not be waited for.
   */
  void letGoElsewhere(List<PullRecord> records) {
    if (closed) {
      return;
    }
    Set<PullRecord> failed = new HashSet<>(records);
    for (RankPull other : List.copyOf(rankPulls)) {
      List<String> transferIds = new ArrayList<>();
      for (PullRecord record : other.openRecords()) {
        if (failed.contains(record)) {
          transferIds.add(record.pull.transferId());
        }
      }
      if (!transferIds.isEmpty()) {
        courtesies.release(other.address(), transferIds);
      }
    }
  }

  /** A rank's word, or its end, or the time passed: its writes are over after this. */
  void quiet(QuietProof proof, long unquietNanos) {
    proofs.remove(proof);
    for (PullRecord record : proof.records()) {
      if (unquietNanos > 0) {
        record.unquietUntil(loop.now() + unquietNanos);
      }
      settlements.rankDone(record);
    }
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
    settlements.closing();
    Map<String, List<String>> asked = new LinkedHashMap<>();
    for (RankPull pull : List.copyOf(rankPulls)) {
      for (PullRecord record : pull.openRecords()) {
        asked
            .computeIfAbsent(pull.address(), address -> new ArrayList<>())
            .add(record.pull.transferId());
      }
      pull.failAll(FailureStage.SHUTDOWN, reason, true);
    }
    if (integrity != null) {
      integrity.close(reason);
    }
    List.copyOf(proofs).forEach(QuietProof::giveUp);
    settlements.close(reason);
    if (leases != null) {
      leases.close();
    }
    courtesies.close();
    connections.close();
    // Those that were asked keep the blocks for another try of ours, which will not come.
    asked.forEach(courtesies::release);
  }

  /** Messages to prefillers that are not answered yet and that no request waits for. */
  public int courtesies() {
    return courtesies.open();
  }

  /** Leases that are renewed. */
  public int leases() {
    return leases == null ? 0 : leases.size();
  }

  /** Requests being fetched, or released. */
  public int pulls() {
    return settlements.size();
  }

  /** Blocks that a peer may still write to. */
  public int quarantinedBlocks() {
    Set<PullRecord> held = new HashSet<>(settlements.heldBack());
    for (QuietProof proof : proofs) {
      held.addAll(proof.records());
    }
    int blocks = 0;
    for (PullRecord record : held) {
      blocks += record.pull.blocks().totalSize();
    }
    return blocks;
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
