package dev.mooncake4j.core.worker;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.channel.ZmtpSideChannel;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.discovery.RankRegistration;
import dev.mooncake4j.core.rig.FakeBootstrap;
import dev.mooncake4j.core.rig.TestCache;
import dev.mooncake4j.testkit.FaultPlan;
import dev.mooncake4j.testkit.InMemoryNetwork;
import dev.mooncake4j.testkit.InMemoryTransferEngine;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;

/** Whole workers with their threads, on sockets of this host and an engine in memory. */
final class WorkerRig implements AutoCloseable {
  static final Duration BOUND = Duration.ofSeconds(20);
  static final String ENGINE_ID = "engine";
  static final String BOOTSTRAP = "http://127.0.0.1:8998";

  private final InMemoryNetwork network = new InMemoryNetwork();
  private final Arena arena = Arena.ofShared();
  private final List<Node> nodes = new ArrayList<>();
  final FakeBootstrap bootstrap = new FakeBootstrap();

  /** Where the next workers register. */
  RegistrationPlace place = RegistrationPlace.elsewhere(BOOTSTRAP);

  /** One worker and what is below it. */
  final class Node {
    final FaultPlan faults = new FaultPlan();
    final TestCache cache = new TestCache(arena, 2, 64, 32);
    final AtomicInteger closings = new AtomicInteger();
    final InMemoryTransferEngine engine;
    final MooncakeWorker worker;

    Node(KvRole role, UnaryOperator<ConnectorHooks> hooks, SideChannel channel) {
      ConnectorConfig config =
          ConnectorConfig.builder()
              .role(role)
              .engineId(role.isProducer() ? ENGINE_ID : "decoder")
              .host("127.0.0.1")
              .numWorkers(2)
              .environment(Map.of())
              .abortRequestTimeout(Duration.ofMinutes(2))
              .build();
      engine =
          network.open(
              new EngineConfig("127.0.0.1", "tcp", List.of(), null, NanoClock.SYSTEM), faults);
      worker =
          new MooncakeWorker(
              config,
              hooks.apply(ConnectorHooks.none()),
              RankLayout.single(),
              engine,
              channel,
              bootstrap,
              place,
              TransferListener.NONE,
              () -> {},
              closings::incrementAndGet);
    }

    void register() {
      worker.registerKvCaches(cache.layout());
      if (worker.stats().registeredBytes() == 0) {
        throw new AssertionError("nothing is registered");
      }
    }

    void ready(String requestId, String transferId, int... blocks) {
      worker.startStep(
          new StepPlan(
              List.of(),
              List.of(),
              List.of(),
              List.of(),
              List.of(new StepPlan.Ready(requestId, transferId, BlockIds.of(blocks))),
              List.of()));
    }

    void pull(String requestId, String transferId, int... blocks) {
      worker.startStep(
          new StepPlan(
              List.of(),
              List.of(
                  new StepPlan.Pull(
                      requestId, transferId, ENGINE_ID, BOOTSTRAP, BlockIds.of(blocks))),
              List.of(),
              List.of(),
              List.of(),
              List.of()));
    }

    StepResult await() throws InterruptedException {
      return worker.await(BOUND);
    }
  }

  Node open(KvRole role) {
    return open(role, hooks -> hooks);
  }

  Node open(KvRole role, UnaryOperator<ConnectorHooks> hooks) {
    return open(role, hooks, new ZmtpSideChannel());
  }

  Node open(KvRole role, UnaryOperator<ConnectorHooks> hooks, SideChannel channel) {
    Node node = new Node(role, hooks, channel);
    nodes.add(node);
    return node;
  }

  /** A prefiller that is registered. */
  Node prefiller() {
    Node node = open(KvRole.PRODUCER);
    node.register();
    tellBootstrap();
    return node;
  }

  /** A decoder that is registered. */
  Node decoder() {
    Node node = open(KvRole.CONSUMER);
    node.register();
    return node;
  }

  /** The bootstrap server answers with the ranks registered now. */
  void tellBootstrap() {
    List<EngineAddresses> engines = new ArrayList<>();
    for (RankRegistration rank : bootstrap.registered()) {
      engines.add(
          new EngineAddresses(
              rank.dpRank(), rank.engineId(), Map.of(0, Map.of(0, rank.address()))));
    }
    bootstrap.answerAlways(engines);
  }

  @Override
  public void close() {
    for (Node node : nodes) {
      node.faults.releaseWrites();
      node.worker.close();
    }
    arena.close();
  }
}
