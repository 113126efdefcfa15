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
import java.util.List;
import java.util.Map;
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
  private final Map<Key, StepPlan.Arrival> watched = new HashMap<>();
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

  LeaseRenewer(EventLoop loop, Duration lease, Teller teller) {
    this.loop = loop;
    this.periodNanos = Math.max(1, lease.toNanos() / 6);
    this.teller = teller;
  }

  /** A request has arrived: its lease is renewed from now on. */
  void watch(StepPlan.Arrival arrival) {
    watched.put(new Key(arrival.requestId(), arrival.transferId()), arrival);
    if (tick == null) {
      tick = loop.schedule(periodNanos, this::renewAll);
    }
  }

  /** A request's pull has settled. */
  void settled(StepPlan.Pull pull) {
    watched.remove(new Key(pull.requestId(), pull.transferId()));
    if (watched.isEmpty()) {
      stop();
    }
  }

  /** Renews nothing any more. */
  void close() {
    watched.clear();
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
    Map<Engine, List<String>> byEngine = new HashMap<>();
    for (StepPlan.Arrival arrival : watched.values()) {
      byEngine
          .computeIfAbsent(
              new Engine(arrival.remoteEngineId(), arrival.remoteBootstrapAddr()),
              e -> new ArrayList<>())
          .add(arrival.transferId());
    }
    byEngine.forEach(
        (engine, transferIds) ->
            teller.tell(
                engine.engineId(),
                engine.bootstrapAddress(),
                WireCodec.encode(new RenewRequest(transferIds)),
                this::answered));
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
