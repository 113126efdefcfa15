package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.consumer.Consumer;
import dev.mooncake4j.core.consumer.LocalEngine;
import dev.mooncake4j.core.discovery.PrefillerDirectory;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.worker.LoopDriver;
import dev.mooncake4j.testkit.InMemoryTransferEngine;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One decoder rank in a test's hand. */
public final class RigDecoder {
  private final RankLayout rank;
  private final TestCache cache;
  private final InMemoryTransferEngine engine;
  private final EventLoop loop;
  private final FakeSideChannel channel;
  private final RecordingListener listener = new RecordingListener();
  private final ResultQueue results = new ResultQueue(() -> {});
  private final PrefillerDirectory directory;
  private final Consumer consumer;
  private final LoopDriver driver;
  private @Nullable List<Runnable> heldReads;
  private long nextLayoutId = 101;

  RigDecoder(
      CoreRig rig,
      RankLayout rank,
      TestCache cache,
      InMemoryTransferEngine engine,
      ConnectorConfig config) {
    this.rank = rank;
    this.cache = cache;
    this.engine = engine;
    this.loop = new EventLoop(rig.clock());
    this.channel = rig.network().channel();
    this.directory = new PrefillerDirectory(loop, rig.bootstrap());
    this.consumer =
        new Consumer(loop, rank, config, directory, channel, results, listener, this::onReader);
    this.driver = new LoopDriver(loop, channel, null, consumer);
    engine.register(cache.ranges());
    attach();
  }

  /** Its caches are registered, under a new layout id. */
  public void attach() {
    LocalCache local = cache.local(rank);
    consumer.attach(
        new LocalEngine(
            engine.host(),
            engine.port(),
            local,
            LoopDriver.wire(local),
            nextLayoutId,
            HostMemory.of(cache.layout().memories())));
    nextLayoutId += 2;
  }

  private void onReader(Runnable read) {
    if (heldReads == null) {
      read.run();
    } else {
      heldReads.add(read);
    }
  }

  /** From now on nothing that has arrived is read until {@link #read}. */
  public void holdReads() {
    heldReads = new ArrayList<>();
  }

  /** Reads what was held. */
  public void read() {
    List<Runnable> held = heldReads;
    heldReads = null;
    if (held != null) {
      held.forEach(Runnable::run);
    }
  }

  /** One turn of its loop. */
  public void turn() {
    driver.turn();
  }

  /** A pull, of the engine and the bootstrap server that a rig has. */
  public static StepPlan.Pull pullOf(String requestId, String transferId, int... blocks) {
    return new StepPlan.Pull(
        requestId,
        transferId,
        CoreRig.ENGINE_ID,
        CoreRig.BOOTSTRAP,
        blocks.length == 0 ? BlockIds.none() : BlockIds.of(blocks));
  }

  /** Fetches one request's blocks; none only releases the prefiller's. */
  public void pull(String requestId, String transferId, int... blocks) {
    pull(pullOf(requestId, transferId, blocks));
  }

  /** Fetches several requests' blocks in one step. */
  public void pull(StepPlan.Pull... pulls) {
    step(new StepPlan(List.of(), List.of(pulls), List.of(), List.of(), List.of(), List.of()));
  }

  /** A request has arrived and waits for its turn. */
  public void arrive(String requestId, String transferId) {
    step(
        new StepPlan(
            List.of(
                new StepPlan.Arrival(requestId, transferId, CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP)),
            List.of(),
            List.of(),
            List.of(),
            List.of(),
            List.of()));
  }

  /** The server gives requests up. */
  public void cancel(String... requestIds) {
    step(new StepPlan(List.of(), List.of(), List.of(requestIds), List.of(), List.of(), List.of()));
  }

  /** A whole step. */
  public void step(StepPlan plan) {
    loop.post(() -> consumer.step(plan));
  }

  /** What is to report since the last call. */
  public StepResult results() {
    return results.take();
  }

  /** Terminal events since the last call, as {@code requestId} or {@code requestId=STAGE}. */
  public List<String> ends() {
    StepResult result = results();
    List<String> ends = new ArrayList<>(result.received());
    for (Failure failure : result.failed()) {
      ends.add(failure.requestId() + "=" + failure.stage());
    }
    return ends;
  }

  /** The one failure since the last call; fails if there is another number of events. */
  public Failure onlyFailure() {
    StepResult result = results();
    if (!result.received().isEmpty() || result.failed().size() != 1) {
      throw new AssertionError("not one failure: " + result);
    }
    return result.failed().getFirst();
  }

  /** Its memory. */
  public TestCache cache() {
    return cache;
  }

  /** Its engine. */
  public InMemoryTransferEngine engine() {
    return engine;
  }

  /** Its loop. */
  public EventLoop loop() {
    return loop;
  }

  /** Its side channel. */
  public FakeSideChannel channel() {
    return channel;
  }

  /** Its half of the protocol. */
  public Consumer consumer() {
    return consumer;
  }

  /** What it knows of engines. */
  public PrefillerDirectory directory() {
    return directory;
  }

  /** Its observer. */
  public RecordingListener listener() {
    return listener;
  }
}
