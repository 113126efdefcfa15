package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult.SendEnd;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.discovery.AllowedHosts;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.plan.PlanException;
import dev.mooncake4j.core.plan.RankPairing;
import dev.mooncake4j.core.producer.PullWrites.Pinned;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.RenewRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The prefiller's half: meets the pulls of decoders with the transfers of this engine.
 *
 * <p>Owned by the worker loop: every method runs there. A pull that waits for its prefill is an
 * entry in a map and a deadline, never a thread. Longer than most classes, since the transfers, the
 * pulls that wait and the tombstones change together and have this one owner; what can stand alone
 * does ({@link SendRecord}, {@link ServedPull}, {@link PeerLayouts}, {@link PullWrites}, {@link
 * EarlyWrites}).
 */
public final class Producer {
  private static final Logger LOG = LoggerFactory.getLogger(Producer.class);

  private static final long MALFORMED_LOG_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final EventLoop loop;
  private final RankLayout rank;
  private final Settings settings;
  private final ResultQueue results;
  private final TransferListener listener;

  private final Map<String, SendRecord> sends = new HashMap<>();
  private final WaitingPulls waiting = new WaitingPulls();
  private final PendingReleases releases = new PendingReleases();
  private final Tombstones tombstones;
  private final PullWrites writes;
  private final EarlyWrites early;
  private @Nullable PeerLayouts layouts;

  /** The caches that were registered last. */
  private @Nullable LocalCache cache;

  private long malformed;
  private long malformedTold;
  private boolean closed;

  /**
   * How long things last here, and with whom it deals.
   *
   * @param abortTimeout how long blocks that nobody fetches are kept, and a pull waits
   * @param lease how long blocks are kept without renewal instead, or {@code null}
   * @param fingerprint of the model and its KV here, or {@code null} to compare none
   * @param decoderHosts at which hosts a decoder's engine may be
   */
  public record Settings(
      Duration abortTimeout,
      @Nullable Duration lease,
      @Nullable String fingerprint,
      AllowedHosts decoderHosts) {

    /** Two timeouts alone: no fingerprint, and any host but special addresses. */
    public Settings(Duration abortTimeout, @Nullable Duration lease) {
      this(abortTimeout, lease, null, AllowedHosts.of("peer_allowed_hosts", List.of()));
    }
  }

  /** A producer that answers through {@code replies}. */
  public Producer(
      EventLoop loop,
      RankLayout rank,
      Settings settings,
      BiConsumer<PeerIdentity, byte[]> replies,
      ResultQueue results,
      TransferListener listener) {
    this.loop = loop;
    this.rank = rank;
    this.settings = settings;
    this.results = results;
    this.listener = listener;
    this.tombstones = new Tombstones(loop);
    this.writes =
        new PullWrites(
            loop,
            replies,
            listener,
            tombstones,
            new PullWrites.Ends() {
              @Override
              public void served(ServedPull pull, SendRecord send) {
                Producer.this.served(pull, send);
              }

              @Override
              public void ended(SendRecord send) {
                Producer.this.ended(send);
              }
            });
    this.early =
        new EarlyWrites(
            waiting,
            writes,
            new EarlyWrites.Ends() {
              @Override
              public void earlyWriteOver(SendRecord send, boolean ended) {
                Producer.this.earlyWriteOver(send, ended);
              }

              @Override
              public void earlyWriteFailed(
                  WaitingPulls.Waiting waiter, SendRecord send, String reason) {
                Producer.this.earlyWriteFailed(waiter, send, reason);
              }
            });
  }

  /** The caches are registered: pulls can be served. */
  void attach(LocalCache registered, HostMemory readable, TransferRunner transfers) {
    LocalCache former = cache;
    cache = registered;
    layouts = new PeerLayouts(registered);
    writes.attach(readable, transfers);
    if (former != null && !former.regions().equals(registered.regions())) {
      leaveFormerCaches();
    }
  }

  /**
   * The plans of pulls that wait, and the blocks of transfers that are ready, are of the former.
   */
  private void leaveFormerCaches() {
    String text = "is of other kv caches than the prefiller has registered now";
    for (String transferId : waiting.transferIds()) {
      for (WaitingPulls.Waiting waiter : waiting.of(transferId)) {
        if (!waiter.entry.blocks().isEmpty()) {
          waiting.remove(waiter);
          refuse(waiter, sends.get(transferId), text);
        }
      }
    }
    for (SendRecord send : List.copyOf(sends.values())) {
      if (send.state() == SendRecord.State.READY) {
        end(send, SendEnd.RELEASED, text);
      }
    }
  }

  /** The caches are no longer registered: nothing is read from them until they are again. */
  public void detach() {
    layouts = null;
    writes.detach();
  }

  /** Takes the sends of a step. */
  public void step(StepPlan plan) {
    if (!closed) {
      for (StepPlan.Announcement announcement : plan.announcements()) {
        announce(
            new RequestNames(
                announcement.requestId(), announcement.transferId(), announcement.trace()));
      }
    }
    List<SendRecord> advanced = new ArrayList<>();
    for (StepPlan.Progress progress : plan.progress()) {
      SendRecord send = sends.get(progress.transferId());
      if (send != null
          && send.requestId.equals(progress.requestId())
          && send.state() == SendRecord.State.ANNOUNCED) {
        send.progress(progress);
        advanced.add(send);
      }
    }
    Map<ServedPull, List<Pinned>> startable = new LinkedHashMap<>();
    for (StepPlan.Ready ready : plan.ready()) {
      ready(ready, startable);
    }
    startable.forEach(writes::write);
    startable.keySet().forEach(writes::answer);
    for (StepPlan.CancelledSend cancelled : plan.cancelledSends()) {
      cancel(cancelled);
    }
    // Last: of those that are ready or given up by now nothing is written early.
    advanced.forEach(early::advance);
  }

  private @Nullable SendRecord announce(RequestNames names) {
    String requestId = names.requestId();
    String transferId = names.transferId();
    SendRecord known = sends.get(transferId);
    if (known != null) {
      if (!known.requestId.equals(requestId)) {
        LOG.warn(
            "transfer_id={} of request_id={} is in use by request_id={}: the second is not sent",
            transferId,
            requestId,
            known.requestId);
        return null;
      }
      return known;
    }
    SendRecord send = new SendRecord(names);
    sends.put(transferId, send);
    Tombstones.Tombstone old = tombstones.remove(transferId);
    if (old != null && old.releasedUnseen()) {
      send.releaseWhenReady();
    }
    return send;
  }

  private void ready(StepPlan.Ready ready, Map<ServedPull, List<Pinned>> startable) {
    String transferId = ready.transferId();
    SendRecord send =
        closed ? null : announce(new RequestNames(ready.requestId(), transferId, null));
    if (send == null) {
      SendRecord closing = sends.get(transferId);
      if (closing != null && closing.requestId.equals(ready.requestId())) {
        closing.reportAs(SendEnd.RELEASED); // an early write still reads them
        return;
      }
      // Its blocks were given to us and nobody will fetch them: under this id, or at all.
      results.sent(ready.requestId(), transferId, SendEnd.RELEASED);
      return;
    }
    if (send.state() != SendRecord.State.ANNOUNCED) {
      LOG.warn(
          "transfer_id={} request_id={} is ready already: ignored", transferId, send.requestId);
      return;
    }
    Duration kept = settings.lease() != null ? settings.lease() : settings.abortTimeout();
    boolean released = send.isReleasedWhenReady();
    send.ready(ready.blocks(), loop.schedule(kept.toNanos(), () -> expire(send)));
    if (released) {
      end(send, SendEnd.RELEASED, "was released by the decoder before its prefill ended");
      return;
    }
    if (!writes.wasAttached()) {
      // None ever were, so there is no KV in these blocks: kept, they would only expire.
      LOG.warn(
          "transfer_id={} request_id={} is ready but no kv caches are registered: it is not sent"
              + " and its blocks are free, call registerKvCaches first",
          transferId,
          send.requestId);
      end(send, SendEnd.RELEASED, "cannot be sent: " + PullWrites.NO_CACHES);
      return;
    }
    boolean fits = early.fits(send);
    for (WaitingPulls.Waiting waiter : waiting.take(transferId)) {
      waiter.waited("ready", send, null);
      met(waiter.entry, loop.now() - waiter.since);
      Pinned rest = early.rest(waiter, send, fits);
      if (early.isWriting(waiter)) {
        early.thenTheRest(waiter, failure -> goOn(waiter, rest, failure));
      } else {
        startable.computeIfAbsent(waiter.pull, p -> new ArrayList<>()).add(rest);
      }
    }
  }

  /** The early write is over that was under way when the prefill ended: writes the rest. */
  private void goOn(WaitingPulls.Waiting waiter, Pinned rest, @Nullable String failure) {
    if (failure == null) {
      writes.write(waiter.pull, List.of(rest));
    } else {
      writes.failed(waiter.pull, waiter.entry, rest.send(), failure);
    }
    writes.answer(waiter.pull);
  }

  private void earlyWriteFailed(WaitingPulls.Waiting waiter, SendRecord send, String reason) {
    waiter.waited("failed", send, reason);
    writes.failed(waiter.pull, waiter.entry, send, reason);
    writes.answer(waiter.pull);
  }

  private void earlyWriteOver(SendRecord send, boolean ended) {
    if (ended) {
      ended(send);
    } else if (!send.isWritten()) {
      releases.quiet(send.transferId).forEach(this::answer);
    }
  }

  private void cancel(StepPlan.CancelledSend cancelled) {
    String text = "prefill was given up: " + cancelled.reason();
    SendEnd why = cancelled.blocksKept() ? SendEnd.RELEASED : null;
    SendRecord send = sends.get(cancelled.transferId());
    if (send != null && send.requestId.equals(cancelled.requestId())) {
      switch (send.state()) {
        case ANNOUNCED -> end(send, why, text);
        case READY -> end(send, SendEnd.RELEASED, text);
        case ENDING -> {
          if (why != null) {
            send.reportAs(why);
          }
        }
        case ENDED -> {}
      }
      return;
    }
    if (send == null) {
      tombstones.put(cancelled.transferId(), text, false);
      refuseWaiting(cancelled.transferId(), null, text);
    }
    if (why != null) {
      // Nothing is written of it here; the server waits to be told.
      results.sent(cancelled.requestId(), cancelled.transferId(), why);
    }
  }

  /** Lets a transfer go, for the server, a router or the decoder; returns whether it was held. */
  public boolean release(String transferId) {
    String text = "was released";
    SendRecord send = sends.get(transferId);
    if (send == null) {
      if (tombstones.get(transferId) == null) {
        tombstones.put(transferId, text, true);
      }
      refuseWaiting(transferId, null, text);
      return false;
    }
    switch (send.state()) {
      case ANNOUNCED -> {
        send.releaseWhenReady();
        refuseWaiting(transferId, send, text);
      }
      case READY -> end(send, SendEnd.RELEASED, text);
      case ENDING, ENDED -> {}
    }
    return true;
  }

  private void expire(SendRecord send) {
    if (send.state() == SendRecord.State.READY) {
      LOG.warn(
          "transfer_id={} request_id={} expired before a decoder fetched it, blocks={}",
          send.transferId,
          send.requestId,
          send.blocks().totalSize());
      listener.requestExpired(send.transferId);
      end(send, SendEnd.EXPIRED, "expired on the prefiller before it was fetched");
    }
  }

  /** Ends a send: {@code why} is null when the server has its blocks already. */
  private void end(SendRecord send, @Nullable SendEnd why, String text) {
    tombstones.put(send.transferId, text, false);
    refuseWaiting(send.transferId, send, text);
    if (send.finish(why)) {
      ended(send);
    }
  }

  private void ended(SendRecord send) {
    sends.remove(send.transferId);
    SendEnd why = send.end();
    if (why != null) {
      results.sent(send.requestId, send.transferId, why);
    }
    releases.quiet(send.transferId).forEach(this::answer);
  }

  private void refuseWaiting(String transferId, @Nullable SendRecord send, String text) {
    for (WaitingPulls.Waiting waiter : waiting.take(transferId)) {
      refuse(waiter, send, text);
    }
  }

  private void refuse(WaitingPulls.Waiting waiter, @Nullable SendRecord send, String text) {
    waiter.waited("refused", send, text);
    PullEntry entry = waiter.entry;
    early.whenQuiet(
        waiter,
        failure -> {
          waiter.pull.failed(entry.requestId(), "transfer_id=" + entry.transferId() + " " + text);
          writes.answer(waiter.pull);
        });
  }

  /** A request of a decoder, one frame. */
  public void onRequest(PeerIdentity from, byte[] payload) {
    try {
      switch (WireCodec.decodeRequest(payload)) {
        case PullRequest pull -> serve(from, pull);
        case RenewRequest renew -> renew(from, renew.transferIds());
        case ReleaseRequest release -> releaseAll(from, release.transferIds());
      }
    } catch (MalformedMessageException e) {
      refuse(from, e.getMessage());
    } catch (RuntimeException e) {
      LOG.error("a request from a decoder failed here: answered with an error", e);
      writes.reply(from, PullResponse.error("the prefiller failed on this request: " + e, 0));
    }
  }

  /** A request that was not one frame. */
  public void onMalformed(PeerIdentity from, int frames) {
    refuse(from, "frames=" + frames + ": a request is one frame");
  }

  private void refuse(PeerIdentity from, @Nullable String reason) {
    malformed++;
    long now = loop.now();
    // One line a second: whoever sends nonsense sends much of it.
    if (malformed == 1 || now - malformedTold >= MALFORMED_LOG_NANOS) {
      malformedTold = now;
      LOG.warn("malformed request on the side channel, malformed={}: {}", malformed, reason);
    }
    writes.reply(from, PullResponse.error("malformed request: " + reason, 0));
  }

  private void releaseAll(PeerIdentity from, List<String> transferIds) {
    List<String> held = new ArrayList<>();
    List<String> unknown = new ArrayList<>();
    List<String> beingWritten = new ArrayList<>();
    for (String transferId : new LinkedHashSet<>(transferIds)) {
      (release(transferId) ? held : unknown).add(transferId);
      SendRecord send = sends.get(transferId);
      if (send != null && isWrittenAndLetGo(send)) {
        beingWritten.add(transferId);
      }
    }
    if (beingWritten.isEmpty()) {
      answer(new PendingReleases.Pending(from, held, unknown, 0));
    } else if (releases.isFull()) {
      writes.reply(from, PullResponse.error("the prefiller lets no more releases wait", 0));
    } else {
      releases.add(
          new PendingReleases.Pending(from, held, unknown, beingWritten.size()), beingWritten);
    }
  }

  private static boolean isWrittenAndLetGo(SendRecord send) {
    return send.state() == SendRecord.State.ENDING
        || (send.state() == SendRecord.State.ANNOUNCED && send.isWritten());
  }

  private void answer(PendingReleases.Pending release) {
    writes.reply(release.from, PullResponse.finished(release.held, release.unknown, null, 0));
  }

  private void renew(PeerIdentity from, List<String> transferIds) {
    Duration lease = settings.lease();
    if (lease == null) {
      writes.reply(
          from,
          PullResponse.error(
              "kv_lease_duration is not set on this prefiller: set the same value on both sides",
              0));
      return;
    }
    long until = loop.now() + lease.toNanos() * 2 / 3;
    int leases = 0;
    List<String> renewed = new ArrayList<>();
    List<String> unknown = new ArrayList<>();
    for (String transferId : transferIds) {
      SendRecord send = sends.get(transferId);
      if (send == null || send.state() == SendRecord.State.ENDING) {
        unknown.add(transferId);
        continue;
      }
      Deadline expiry = send.expiry();
      if (expiry != null) {
        leases++;
        if (expiry.at() - until < 0) {
          expiry.moveTo(until);
        }
      }
      renewed.add(transferId);
    }
    if (leases > 0) {
      listener.leasesRenewed(leases);
    }
    writes.reply(from, PullResponse.finished(renewed, unknown, null, 0));
  }

  private void serve(PeerIdentity from, PullRequest pull) {
    PeerLayouts known = layouts;
    if (closed || known == null) {
      writes.reply(
          from, PullResponse.error(closed ? "the prefiller is closing" : PullWrites.NO_CACHES, 0));
      return;
    }
    boolean releaseOnly = pull.entries().stream().allMatch(e -> e.blocks().isEmpty());
    PeerPlan plan = null;
    int ranksToServe;
    try {
      if (!releaseOnly) {
        checkPeer(pull);
      }
      ranksToServe = RankPairing.consumerCount(rank, pull.remoteTpSize(), pull.remotePpSize());
      // What only releases needs no layout; what brings one has it remembered all the same.
      if (!releaseOnly || !pull.layout().isEmpty()) {
        plan = known.resolve(pull);
        if (plan == null) {
          writes.reply(from, PullResponse.layoutMiss(missText(pull)));
          return;
        }
      }
    } catch (PlanException e) {
      LOG.warn("pull from peer={} refused: {}", PeerLayouts.session(pull), e.getMessage());
      writes.reply(from, PullResponse.error(String.valueOf(e.getMessage()), 0));
      return;
    }
    ServedPull served = new ServedPull(from, pull, PeerLayouts.session(pull), plan, ranksToServe);
    if (pull.entries().isEmpty()) {
      writes.reply(from, PullResponse.finished(List.of(), List.of(), null, pull.layoutId()));
      return;
    }
    List<Pinned> now = new ArrayList<>();
    for (PullEntry entry : pull.entries()) {
      meet(served, entry, now);
    }
    writes.write(served, now);
    writes.answer(served);
  }

  /** What is wrong with a decoder whatever its layout is. */
  private void checkPeer(PullRequest pull) {
    String here = settings.fingerprint();
    String there = pull.fingerprint();
    if (here != null && there != null && !here.equals(there)) {
      throw new PlanException(
          PlanException.Reason.FINGERPRINT,
          "kv_cache_fingerprint="
              + there
              + " of the decoder is not the prefiller's kv_cache_fingerprint="
              + here
              + ": the two hold different models, or their KV in different types");
    }
    String host = HostAddresses.bare(pull.remoteHostname()).toLowerCase(Locale.ROOT);
    if (!settings.decoderHosts().allow(host)) {
      throw new PlanException(
          PlanException.Reason.PEER_HOST,
          "remote_hostname="
              + pull.remoteHostname()
              + " is not a host that may be written to: add it to peer_allowed_hosts of the"
              + " prefiller if it is one of the cluster's");
    }
  }

  private static String missText(PullRequest pull) {
    return "layout_id=0x"
        + Long.toHexString(pull.layoutId())
        + " of peer="
        + PeerLayouts.session(pull)
        + " is not kept here: send the layout again";
  }

  private void meet(ServedPull pull, PullEntry entry, List<Pinned> now) {
    SendRecord send = sends.get(entry.transferId());
    if (send != null && send.state() == SendRecord.State.READY) {
      met(entry, 0);
      now.add(Pinned.whole(entry, send));
      return;
    }
    boolean past = send == null && tombstones.get(entry.transferId()) != null;
    if (send != null && send.isReleasedWhenReady()) {
      pull.failed(entry.requestId(), "transfer_id=" + entry.transferId() + " was released");
    } else if (past || (send != null && send.state() == SendRecord.State.ENDING)) {
      pull.failed(entry.requestId(), tombstones.past(entry.transferId()));
    } else {
      String full = waiting.fullFor(pull.from.host(), pull.session);
      if (full == null) {
        await(pull, entry, send);
      } else {
        pull.failed(entry.requestId(), full + ": the prefiller lets no more wait, ask again later");
      }
    }
  }

  private void met(PullEntry entry, long waitedNanos) {
    if (!entry.blocks().isEmpty()) {
      listener.prefillWaited(waitedNanos);
    }
  }

  private void await(ServedPull pull, PullEntry entry, @Nullable SendRecord send) {
    WaitingPulls.Waiting waiter = new WaitingPulls.Waiting(pull, entry, loop.now());
    waiting.add(waiter, loop.schedule(settings.abortTimeout().toNanos(), () -> timedOut(waiter)));
    if (send != null) {
      early.advance(waiter, send);
    }
  }

  /**
   * A decoder's connection has ended: its pulls that wait, for their prefill or for an engine
   * thread, are forgotten. What is written later would go into memory that is another process's by
   * then, for an answer that nobody hears. The transfers stay, for whoever asks again, until their
   * lease or the abort timeout ends.
   */
  public void onRequesterGone(PeerIdentity peer) {
    writes.requesterGone(peer);
    List<WaitingPulls.Waiting> dropped = waiting.drop(peer);
    int requests = dropped.size() + early.forgetRests(peer);
    if (requests > 0) {
      LOG.info("requester={} is gone, its pulls wait no more, requests={}", peer, requests);
    }
    for (WaitingPulls.Waiting waiter : dropped) {
      early.whenQuiet(waiter, failure -> {}); // nobody hears the answer
    }
  }

  private void timedOut(WaitingPulls.Waiting waiter) {
    waiting.remove(waiter);
    ServedPull pull = waiter.pull;
    PullEntry entry = waiter.entry;
    String reason =
        "transfer_id="
            + entry.transferId()
            + " timed out waiting for its prefill, abort_request_timeout="
            + settings.abortTimeout();
    SendRecord send = sends.get(entry.transferId());
    waiter.waited("timed out", send, reason);
    early.whenQuiet(
        waiter,
        failure -> {
          writes.failed(pull, entry, send, FailureStage.PREFILL, reason);
          writes.answer(pull);
        });
  }

  private void served(ServedPull pull, SendRecord send) {
    if (send.state() != SendRecord.State.READY) {
      return;
    }
    if (send.served(pull.session) >= pull.ranksToServe) {
      end(send, SendEnd.SERVED, "was fetched already");
    }
  }

  /** Refuses all that waits and all that comes; transfers under way go on and are answered. */
  public void close(String reason) {
    closed = true;
    for (String transferId : waiting.transferIds()) {
      refuseWaiting(transferId, sends.get(transferId), reason);
    }
    for (SendRecord send : List.copyOf(sends.values())) {
      switch (send.state()) {
        case ANNOUNCED -> end(send, null, reason);
        case READY -> end(send, SendEnd.RELEASED, reason);
        case ENDING, ENDED -> {}
      }
    }
    tombstones.close(reason);
  }

  /** Transfers announced, ready or ending. */
  public int sends() {
    return sends.size();
  }

  /** Requests of decoders that wait for their prefill. */
  public int waitingPulls() {
    return waiting.size();
  }

  /** Transfers whose blocks are kept under a deadline. */
  public int leases() {
    int n = 0;
    for (SendRecord send : sends.values()) {
      if (send.state() == SendRecord.State.READY) {
        n++;
      }
    }
    return n;
  }

  /** Blocks that the server must not have yet: of transfers that are ready, or still written. */
  public int pinnedBlocks() {
    int blocks = 0;
    for (SendRecord send : sends.values()) {
      blocks += send.blocks().totalSize();
    }
    return blocks;
  }

  /** Requests that could not be read. */
  public long malformed() {
    return malformed;
  }
}
