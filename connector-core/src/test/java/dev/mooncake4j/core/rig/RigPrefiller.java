package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.StepResult.SendEnd;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.producer.ManualTransfers;
import dev.mooncake4j.core.producer.Producer;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.worker.LoopDriver;
import dev.mooncake4j.testkit.InMemoryTransferEngine;
import java.util.List;

/** One prefiller rank in a test's hand. */
public final class RigPrefiller {
  /** Host of every side channel and engine of a rig. */
  static final String HOST = "127.0.0.1";

  private final RankLayout rank;
  private final TestCache cache;
  private final InMemoryTransferEngine engine;
  private final EventLoop loop;
  private final FakeSideChannel channel;
  private final ManualTransfers transfers;
  private final RecordingListener listener = new RecordingListener();
  private final ResultQueue results = new ResultQueue(() -> {});
  private final Producer producer;
  private final LoopDriver driver;
  private final String address;

  RigPrefiller(
      CoreRig rig,
      RankLayout rank,
      TestCache cache,
      InMemoryTransferEngine engine,
      Producer.Settings settings) {
    this.rank = rank;
    this.cache = cache;
    this.engine = engine;
    this.loop = new EventLoop(rig.clock());
    this.channel = rig.network().channel();
    this.transfers =
        new ManualTransfers(
            engine, (source, destination, length) -> rig.onWrite(source, destination, length));
    this.producer = new Producer(loop, rank, settings, channel::reply, results, listener);
    this.driver = new LoopDriver(loop, channel, producer, null);
    this.address = "tcp://" + HOST + ":" + channel.bind(HOST);
    engine.register(cache.ranges());
    attach();
  }

  /** Its caches are registered. */
  public void attach() {
    transfers.attach(producer, cache.local(rank), HostMemory.of(cache.layout().memories()));
  }

  /** Its side channel, {@code tcp://host:port}. */
  public String address() {
    return address;
  }

  /** One turn of its loop. */
  public void turn() {
    driver.turn();
  }

  /** A prefill begins. */
  public void announce(String requestId, String transferId) {
    step(
        new StepPlan(
            List.of(),
            List.of(),
            List.of(),
            List.of(new StepPlan.Announcement(requestId, transferId)),
            List.of(),
            List.of()));
  }

  /** A prefill has ended. */
  public void ready(String requestId, String transferId, int... blocks) {
    ready(new StepPlan.Ready(requestId, transferId, BlockIds.of(blocks)));
  }

  /** Several prefills have ended in one step. */
  public void ready(StepPlan.Ready... ready) {
    step(new StepPlan(List.of(), List.of(), List.of(), List.of(), List.of(ready), List.of()));
  }

  /** A prefill is given up. */
  public void cancel(String requestId, String transferId, String reason) {
    step(
        new StepPlan(
            List.of(),
            List.of(),
            List.of(),
            List.of(),
            List.of(),
            List.of(new StepPlan.CancelledSend(requestId, transferId, reason))));
  }

  /** The same, of one whose blocks may be being written: the server keeps them until it is told. */
  public void giveUp(String requestId, String transferId, String reason) {
    step(
        new StepPlan(
            List.of(),
            List.of(),
            List.of(),
            List.of(),
            List.of(),
            List.of(new StepPlan.CancelledSend(requestId, transferId, reason, true))));
  }

  /** A prefill of {@code total} blocks goes on: these, its first ones, are finished. */
  public void progress(String requestId, String transferId, int total, int... finished) {
    progress(
        new StepPlan.Progress(requestId, transferId, 0, BlockIds.of(finished), List.of(total)));
  }

  /** Prefills go on. */
  public void progress(StepPlan.Progress... progress) {
    step(
        new StepPlan(
            List.of(), List.of(), List.of(), List.of(), List.of(), List.of(), List.of(progress)));
  }

  /** A whole step. */
  public void step(StepPlan plan) {
    loop.post(() -> producer.step(plan));
  }

  /** The server or a router lets a transfer go. */
  public void release(String transferId) {
    loop.post(() -> producer.release(transferId));
  }

  /** What is to report since the last call. */
  public StepResult results() {
    return results.take();
  }

  /** Ends of sends since the last call, as {@code requestId=END}. */
  public List<String> sent() {
    return results().sent().stream().map(RigPrefiller::text).toList();
  }

  private static String text(StepResult.Sent sent) {
    SendEnd end = sent.end();
    return sent.requestId() + "=" + end;
  }

  /** Its memory. */
  public TestCache cache() {
    return cache;
  }

  /** Its engine. */
  public InMemoryTransferEngine engine() {
    return engine;
  }

  /** Its engine threads. */
  public ManualTransfers transfers() {
    return transfers;
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
  public Producer producer() {
    return producer;
  }

  /** Its observer. */
  public RecordingListener listener() {
    return listener;
  }
}
