package dev.mooncake4j.bench;

import com.sun.management.ThreadMXBean;
import dev.mooncake4j.bench.measure.Commands;
import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.it.PeerOptions;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import tools.jackson.databind.JsonNode;

/**
 * One prefiller or decoder around the connector's public interface, which measures in its own
 * process. {@code benchmarks/vllm/bench_peer.py} does the same around vLLM's connector.
 *
 * <p>Options: {@link PeerOptions}. Heap bytes ({@code allocated}) are those of all threads from the
 * begin of what is waited for to its end, or -1. Commands, each answered by one event (the name in
 * brackets) but where two are named; {@code reqs} is a list of {@code {req_id, transfer_id,
 * block_ids}}, for a decoder with {@code remote_engine_id} and {@code remote_bootstrap_addr}; times
 * are nanoseconds of the system's monotonic clock:
 *
 * <pre>
 * {"cmd":"announce","reqs"}   prefiller: prefills begin and end, the blocks can be fetched [announced]
 * {"cmd":"prefill","reqs","chunks","pause_nanos","tell"}  prefiller: one prefill of some chunks,
 *                             whose progress is told or not [prefilled: "ended"]
 * {"cmd":"await_sent","count","timeout"}  prefiller: waits until so many were sent
 *                             [waiting, and then sent: "ended" by request id, "ends" by kind, "allocated"]
 * {"cmd":"pull","reqs"}       decoder: fetches, a step for each, and waits for all
 *                             [pulled: "started" and "ended" in the order of the requests, "failed", "allocated"]
 * {"cmd":"release","reqs"}    decoder: pulls without blocks, a step for each [released: "started"]; of
 *                             requests that have arrived, or of others
 * {"cmd":"arrive","reqs"}     decoder: requests are queued, with leases their renewals begin [arrived]
 * {"cmd":"checksum","block_ids"} [checksum]   {"cmd":"zero","block_ids"} [zeroed]
 * {"cmd":"renewals"}          prefiller: leases renewed so far [renewals: "count"]
 * {"cmd":"quit"}
 * </pre>
 */
public final class BenchPeer {
  private static final Duration LOOK = Duration.ofMillis(100);
  private static final Duration PULL_PATIENCE = Duration.ofMinutes(2);

  private final Commands commands;
  private final KvScheduler scheduler;
  private final KvWorker worker;
  private final BenchCache cache;
  private final int blockTokens;
  private final Map<String, Live> live = new HashMap<>();

  private record Live(KvRequest request, BlockIds blocks) {}

  private BenchPeer(
      Commands commands, KvConnector connector, KvWorker worker, BenchCache cache, int tokens) {
    this.commands = commands;
    this.scheduler = connector.scheduler();
    this.worker = worker;
    this.cache = cache;
    this.blockTokens = tokens;
  }

  /** Runs one peer until {@code quit} or the end of standard input. */
  public static void main(String[] args) throws InterruptedException {
    Commands commands = Commands.open();
    PeerOptions options = PeerOptions.parse(args);
    BenchCache cache =
        new BenchCache(options.layers(), options.numBlocks(), options.modelBlockBytes());
    cache.fill(options.seed());
    AtomicLong renewals = new AtomicLong();
    TransferListener counter =
        new TransferListener() {
          @Override
          public void leasesRenewed(int leases) {
            renewals.addAndGet(leases);
          }
        };
    ConnectorHooks hooks = ConnectorHooks.none().withListener(counter);
    try (KvConnector connector = KvConnector.open(options.connectorConfig(), hooks)) {
      KvWorker worker = connector.openWorker(options.rank());
      worker.registerKvCaches(cache.layout(options.layerPrefix()));
      var bootstrap = connector.bootstrapAddress();
      commands.emit(
          "ready",
          "pid",
          ProcessHandle.current().pid(),
          "engine_id",
          connector.config().engineId(),
          "bootstrap",
          bootstrap == null ? null : bootstrap.toString(),
          "cache_bytes",
          cache.bytes());
      BenchPeer peer = new BenchPeer(commands, connector, worker, cache, options.blockSize());
      commands.serve(
          (name, command) -> {
            if (name.equals("renewals")) {
              commands.emit("renewals", "count", renewals.get());
            } else {
              peer.handle(name, command);
            }
          });
    }
    // Threads of the engine do not keep a peer that is done with.
    System.exit(0);
  }

  private void handle(String name, JsonNode command) throws InterruptedException {
    JsonNode reqs = command.path("reqs");
    switch (name) {
      case "announce" -> announce(reqs);
      case "prefill" -> prefill(command);
      case "await_sent" ->
          awaitSent(command.path("count").intValue(), command.path("timeout").doubleValue());
      case "pull" -> pull(reqs);
      case "release" -> release(reqs);
      case "arrive" -> {
        for (JsonNode req : reqs) {
          scheduler.onRequestArrived(arrived(req).request());
        }
        step();
        commands.emit("arrived");
      }
      case "checksum" ->
          commands.emit("checksum", "sha256", cache.sha256(Commands.ids(command, "block_ids")));
      case "zero" -> {
        cache.zero(Commands.ids(command, "block_ids"));
        commands.emit("zeroed");
      }
      default -> throw new IllegalArgumentException("unknown cmd=" + name);
    }
  }

  private void announce(JsonNode reqs) {
    List<Live> begun = begin(reqs);
    begun.forEach(this::finish);
    step();
    commands.emit("announced");
  }

  private List<Live> begin(JsonNode reqs) {
    List<Live> begun = new ArrayList<>();
    for (JsonNode req : reqs) {
      BlockIds blocks = BlockIds.of(Commands.ids(req, "block_ids"));
      String id = req.path("req_id").asString();
      var params = KvTransferParams.forPrefiller(req.path("transfer_id").asString());
      Live one = new Live(new KvRequest(id, tokens(blocks), params), blocks);
      scheduler.onRequestArrived(one.request());
      int matched = scheduler.matchedTokens(one.request(), 0).tokens();
      scheduler.onBlocksAllocated(one.request(), blocks, matched);
      begun.add(one);
    }
    step();
    return begun;
  }

  private void finish(Live one) {
    if (!scheduler
        .onRequestFinished(one.request(), one.blocks(), FinishReason.LENGTH)
        .keepBlocks()) {
      throw new IllegalStateException("blocks of " + one.request() + " are not kept");
    }
  }

  /** The pauses stand for computing on a device, which leaves the processor alone. */
  private void prefill(JsonNode command) {
    Live one = begin(command.path("reqs")).getFirst();
    int chunks = command.path("chunks").intValue();
    long pause = command.path("pause_nanos").longValue();
    boolean tell = command.path("tell").booleanValue();
    long start = System.nanoTime();
    for (int chunk = 1; chunk <= chunks; chunk++) {
      for (long left = pause; left > 0; left = start + chunk * pause - System.nanoTime()) {
        LockSupport.parkNanos(left);
      }
      if (tell && chunk < chunks) {
        int tokens = (int) ((long) one.request().promptTokens() * chunk / chunks);
        scheduler.onPrefillProgress(one.request(), one.blocks(), tokens);
        step();
      }
    }
    long ended = System.nanoTime();
    finish(one);
    step();
    commands.emit("prefilled", "ended", ended);
  }

  private void awaitSent(int count, double timeoutSeconds) throws InterruptedException {
    commands.emit("waiting");
    long before = allocated();
    Map<String, Long> ended = new HashMap<>();
    Map<StepResult.SendEnd, Integer> ends = new EnumMap<>(StepResult.SendEnd.class);
    long until = System.nanoTime() + (long) (timeoutSeconds * 1e9);
    while (ended.size() < count && System.nanoTime() - until < 0) {
      StepResult result = worker.await(LOOK);
      long now = System.nanoTime();
      scheduler.onStepResult(result);
      for (StepResult.Sent sent : result.sent()) {
        ended.put(sent.requestId(), now);
        ends.merge(sent.end(), 1, Integer::sum);
      }
    }
    long allocated = allocated() - before;
    commands.emit("sent", "ended", ended, "ends", ends, "allocated", allocated);
  }

  private Live arrived(JsonNode req) {
    BlockIds blocks = BlockIds.of(Commands.ids(req, "block_ids"));
    var params =
        KvTransferParams.forDecoder(
            req.path("transfer_id").asString(),
            req.path("remote_engine_id").asString(),
            req.path("remote_bootstrap_addr").asString());
    String id = req.path("req_id").asString();
    Live one = new Live(new KvRequest(id, Math.max(blockTokens, tokens(blocks)), params), blocks);
    live.put(id, one);
    return one;
  }

  private void pull(JsonNode reqs) throws InterruptedException {
    int count = reqs.size();
    List<Live> made = new ArrayList<>(count);
    Map<String, Integer> index = new HashMap<>();
    for (JsonNode req : reqs) {
      Live one = arrived(req);
      index.put(one.request().requestId(), made.size());
      made.add(one);
    }
    long[] started = new long[count];
    long[] ended = new long[count];
    long before = allocated();
    for (int i = 0; i < count; i++) {
      Live one = made.get(i);
      scheduler.onRequestArrived(one.request());
      int matched = scheduler.matchedTokens(one.request(), 0).tokens();
      scheduler.onBlocksAllocated(one.request(), one.blocks(), matched);
      started[i] = System.nanoTime();
      step();
    }
    List<String> failures = new ArrayList<>();
    int left = count;
    long until = System.nanoTime() + PULL_PATIENCE.toNanos();
    while (left > 0 && System.nanoTime() - until < 0) {
      StepResult result = worker.await(LOOK);
      long now = System.nanoTime();
      scheduler.onStepResult(result);
      for (String id : result.received()) {
        ended[Objects.requireNonNull(index.get(id))] = now;
        left--;
        over(id, FinishReason.LENGTH);
      }
      for (var failure : result.failed()) {
        failures.add(failure.stage() + ": " + failure.reason());
        left--;
        over(failure.requestId(), FinishReason.ERROR);
      }
    }
    if (left > 0) {
      failures.add(left + " not over after " + PULL_PATIENCE);
    }
    step();
    long allocated = allocated() - before;
    commands.emit(
        "pulled", "started", started, "ended", ended, "failed", failures, "allocated", allocated);
  }

  private void over(String requestId, FinishReason reason) {
    Live one = live.remove(requestId);
    if (one != null) {
      scheduler.onRequestFinished(one.request(), one.blocks(), reason);
    }
  }

  private void release(JsonNode reqs) {
    List<Live> made = new ArrayList<>(reqs.size());
    Set<String> known = Set.copyOf(live.keySet());
    for (JsonNode req : reqs) {
      Live one = live.get(req.path("req_id").asString());
      made.add(one == null ? arrived(req) : one);
    }
    long[] started = new long[made.size()];
    for (int i = 0; i < started.length; i++) {
      Live one = made.get(i);
      if (!known.contains(one.request().requestId())) {
        scheduler.onRequestArrived(one.request());
      }
      started[i] = System.nanoTime();
      over(one.request().requestId(), FinishReason.ABORTED);
      step();
    }
    commands.emit("released", "started", started);
  }

  private static long allocated() {
    return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getTotalThreadAllocatedBytes();
  }

  private int tokens(BlockIds blocks) {
    return blocks.totalSize() * blockTokens;
  }

  private void step() {
    var plan = scheduler.buildStep();
    if (!plan.isEmpty()) {
      worker.startStep(plan);
    }
  }
}
