package dev.mooncake4j.it.stress;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.WorkerStats;
import dev.mooncake4j.it.PeerState;
import dev.mooncake4j.it.stress.Messages.Command;
import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.FromPeer;
import dev.mooncake4j.it.stress.Messages.State;
import dev.mooncake4j.it.stress.Messages.ToPeer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.json.JsonMapper;

/**
 * A little inference server in a JVM of its own: one prefiller or decoder that takes its jobs from
 * standard input and tells how they ended. It ends with its standard input.
 *
 * <p>Arguments: role, host, port of the bootstrap server (0 for any), lease in milliseconds, abort
 * timeout in milliseconds, seed.
 */
public final class StressPeer {
  private static final long IDLE_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
  private static final int ENGINE_THREADS = 4;

  private final KvConnector connector;
  private final KvWorker worker;
  private final BlockPool pool;
  private final PeerSide side;
  private final Timers timers = new Timers();
  private final PrintStream out;
  private final JsonMapper json = JsonMapper.builder().build();
  private final BlockingQueue<Runnable> inbox;
  private final List<Ended> ended = new ArrayList<>();
  private boolean stopping;

  private StressPeer(
      KvConnector connector,
      KvWorker worker,
      BlockPool pool,
      BlockingQueue<Runnable> inbox,
      PrintStream out) {
    this.connector = connector;
    this.worker = worker;
    this.pool = pool;
    this.inbox = inbox;
    this.out = out;
    this.side =
        connector.config().role() == KvRole.PRODUCER
            ? new PrefillSide(connector.scheduler(), worker, pool, timers, ended::add)
            : new DecodeSide(connector.scheduler(), worker, pool, timers, ended::add);
  }

  /** Runs one peer until it is told to quit or its standard input ends. */
  public static void main(String[] args) throws InterruptedException {
    PrintStream out = System.out;
    // Whatever prints goes to standard error; standard output is for messages alone.
    System.setOut(System.err);
    BlockingQueue<Runnable> inbox = new LinkedBlockingQueue<>();
    ConnectorHooks hooks =
        ConnectorHooks.none().withResultsReady(() -> inbox.add(StressPeer::wakeUp));
    try (BlockPool pool = new BlockPool(Long.parseLong(args[5]));
        KvConnector connector = KvConnector.open(config(args), hooks)) {
      KvWorker worker = connector.openWorker();
      worker.registerKvCaches(pool.layout());
      new StressPeer(connector, worker, pool, inbox, out).serve();
    }
    System.exit(0);
  }

  private static ConnectorConfig config(String... args) {
    return ConnectorConfig.builder()
        .role(KvRole.ofConfigName(args[0]))
        .host(args[1])
        .bootstrapPort(Integer.parseInt(args[2]))
        .leaseDuration(Duration.ofMillis(Long.parseLong(args[3])))
        .abortRequestTimeout(Duration.ofMillis(Long.parseLong(args[4])))
        .connectorTimeout(Duration.ofSeconds(3))
        .numWorkers(ENGINE_THREADS)
        .protocol("tcp")
        .cacheSpec(
            new KvCacheSpec(
                List.of(KvCacheGroup.fullAttention(BlockPool.BLOCK_TOKENS)), 1, false, 1))
        .build();
  }

  private static void wakeUp() {}

  private void serve() throws InterruptedException {
    URI bootstrap = connector.bootstrapAddress();
    String address = bootstrap == null ? null : bootstrap.toString();
    tell(new FromPeer(new Messages.Ready(connector.config().engineId(), address), List.of(), null));
    Thread.ofPlatform().daemon().name("jobs").start(this::readJobs);
    while (!stopping) {
      Runnable input = inbox.poll(timers.nanosToNext(IDLE_NANOS), TimeUnit.NANOSECONDS);
      for (; input != null; input = inbox.poll()) {
        input.run();
      }
      step();
    }
  }

  /** One scheduler step. */
  private void step() {
    timers.runDue();
    StepResult result = worker.poll();
    if (!result.isEmpty()) {
      connector.scheduler().onStepResult(result);
      side.onResult(result);
    }
    StepPlan plan = connector.scheduler().buildStep();
    if (!plan.isEmpty()) {
      worker.startStep(plan);
    }
    if (!ended.isEmpty()) {
      tell(new FromPeer(null, List.copyOf(ended), null));
      ended.clear();
    }
  }

  private void readJobs() {
    try (BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        ToPeer message = json.readValue(line, ToPeer.class);
        inbox.add(() -> take(message));
      }
    } catch (IOException e) {
      System.err.println("standard input: " + e.getMessage());
    }
    inbox.add(() -> stopping = true);
  }

  private void take(ToPeer message) {
    switch (message.command()) {
      case Command.JOBS -> side.take(message);
      case Command.STATE -> tell(new FromPeer(null, List.of(), state()));
      case Command.QUIT -> stopping = true;
    }
  }

  private State state() {
    WorkerStats stats = worker.stats();
    return new State(
        stats.pulls(),
        stats.sends(),
        stats.waitingPulls(),
        stats.leases(),
        stats.quarantinedBlocks(),
        stats.queuedTransfers(),
        stats.liveBatches(),
        pool.inUse(),
        pool.spoiled(),
        side.strays(),
        side.outstanding(),
        PeerState.threads(),
        PeerState.fileDescriptors(),
        worker.isHealthy());
  }

  private void tell(FromPeer message) {
    out.print(json.writeValueAsString(message) + "\n");
    out.flush();
  }
}
