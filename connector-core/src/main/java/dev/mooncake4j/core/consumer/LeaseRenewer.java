package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.RenewRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the blocks of queued requests on their prefillers: every sixth of the lease, one message to
 * each prefiller rank for all requests that come from it, from a request's arrival until its pull
 * settles. Owned by the worker loop.
 */
final class LeaseRenewer {
  private static final Logger LOG = LoggerFactory.getLogger(LeaseRenewer.class);

  private final EventLoop loop;
  private final long periodNanos;
  private final Teller teller;
  private final Map<Engine, Group> groups = new HashMap<>();
  private final Map<Key, Group> watched = new HashMap<>();
  private final WarnedPeers warned = new WarnedPeers();
  private @Nullable Deadline tick;

  /** How a message reaches every rank of an engine that this rank pairs with. */
  interface Teller {
    /** Sends it; answers come, each with its address, or never. */
    void tell(String engineId, String bootstrapAddress, byte[] message, Answers answers);
  }

  /** Takes the answers to a message. */
  interface Answers {
    /** One rank has answered. */
    void answered(String address, PullResponse response);
  }

  private record Key(String requestId, String transferId) {}

  private record Engine(String engineId, String bootstrapAddress) {}

  /** What comes from one engine, and the message for it, which is good until that changes. */
  private static final class Group {
    final Engine engine;
    final Set<Key> keys = new LinkedHashSet<>();
    private byte @Nullable [] message;

    Group(Engine engine) {
      this.engine = engine;
    }

    void add(Key key) {
      keys.add(key);
      message = null;
    }

    void remove(Key key) {
      keys.remove(key);
      message = null;
    }

    byte[] message() {
      byte[] known = message;
      if (known == null) {
        List<String> transferIds = new ArrayList<>(keys.size());
        for (Key key : keys) {
          transferIds.add(key.transferId());
        }
        known = WireCodec.encode(new RenewRequest(transferIds));
        message = known;
      }
      return known;
    }
  }

  LeaseRenewer(EventLoop loop, Duration lease, Teller teller) {
    this.loop = loop;
    this.periodNanos = Math.max(1, lease.toNanos() / 6);
    this.teller = teller;
  }

  /** A request has arrived: its lease is renewed from now on. */
  void watch(StepPlan.Arrival arrival) {
    Key key = new Key(arrival.requestId(), arrival.transferId());
    forget(key);
    Group group =
        groups.computeIfAbsent(
            new Engine(arrival.remoteEngineId(), arrival.remoteBootstrapAddr()), Group::new);
    group.add(key);
    watched.put(key, group);
    if (tick == null) {
      tick = loop.schedule(periodNanos, this::renewAll);
    }
  }

  /** A request's pull has settled. */
  void settled(StepPlan.Pull pull) {
    forget(new Key(pull.requestId(), pull.transferId()));
    if (watched.isEmpty()) {
      stop();
    }
  }

  private void forget(Key key) {
    Group group = watched.remove(key);
    if (group != null) {
      group.remove(key);
      if (group.keys.isEmpty()) {
        groups.remove(group.engine);
      }
    }
  }

  /** Renews nothing any more. */
  void close() {
    watched.clear();
    groups.clear();
    stop();
  }

  private void stop() {
    if (tick != null) {
      tick.cancel();
      tick = null;
    }
  }

  int size() {
    return watched.size();
  }

  private void renewAll() {
    tick = loop.schedule(periodNanos, this::renewAll);
    // A copy: what is told may end at once, and with it a request.
    for (Group group : List.copyOf(groups.values())) {
      Engine engine = group.engine;
      teller.tell(engine.engineId(), engine.bootstrapAddress(), group.message(), this::answered);
    }
  }

  private void answered(String address, PullResponse response) {
    if (response.status() == PullResponse.Status.ERROR) {
      if (warned.isFirst(address)) {
        LOG.warn(
            "prefiller at addr={} rejects renewals: requests that wait longer than its own time-out"
                + " lose their blocks there; set kv_lease_duration on both sides; it said: {}",
            address,
            response.message());
      }
    } else if (!response.errorRequests().isEmpty()) {
      LOG.debug(
          "prefiller at addr={} holds no lease for transfer_ids={}",
          address,
          response.errorRequests());
    }
  }
}
