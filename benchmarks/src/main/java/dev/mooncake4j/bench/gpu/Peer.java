package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.bench.measure.ChildProcess;
import dev.mooncake4j.bench.measure.Commands;
import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.TransferListener;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;

/**
 * One side of the benchmark: a prefiller or a decoder around the connector's public interface, with
 * its cache on a device. It is a {@link ChildProcess} that tells {@code ready}, and then {@link
 * #DONE} with the answer in a field of that name for each command.
 *
 * <p>Arguments: role, shape, blocks of the cache, transport, {@code cuda} or {@code host}.
 */
final class Peer {
  /** The event that answers any command. */
  static final String DONE = "done";

  private static final int BLOCK_TOKENS = 16;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final KvConnector connector;
  private final KvWorker worker;
  private final Device device;
  private final Cache cache;
  private final String transport;
  private final BlockingQueue<Written> written;
  private final DescriptorList list = new DescriptorList();
  private @Nullable BareEngine bare;
  private @Nullable Sweep sweep;
  private long scratch;

  /** What the connector told of a write. */
  private record Written(long nanos, long bytes, int descriptors) {}

  private Peer(
      KvConnector connector,
      KvWorker worker,
      Device device,
      Cache cache,
      String transport,
      BlockingQueue<Written> written) {
    this.connector = connector;
    this.worker = worker;
    this.device = device;
    this.cache = cache;
    this.transport = transport;
    this.written = written;
  }

  public static void main(String[] args) throws InterruptedException {
    Commands commands = Commands.open();
    try {
      run(args, commands);
    } catch (RuntimeException e) {
      commands.failed(e);
      System.exit(1);
    }
    System.exit(0);
  }

  private static void run(String[] args, Commands commands) throws InterruptedException {
    KvRole role = args[0].equals("prefiller") ? KvRole.PRODUCER : KvRole.CONSUMER;
    Device device = Device.open(args[4].equals("host"));
    Cache cache = new Cache(device, Shape.named(args[1]), Integer.parseInt(args[2]));
    if (role == KvRole.PRODUCER) {
      cache.fill();
    } else {
      cache.zero();
    }
    ConnectorConfig config =
        ConnectorConfig.builder()
            .role(role)
            .engineId("gpu-bench-" + args[0])
            .host("127.0.0.1")
            .bootstrapPort(0)
            .protocol(args[3])
            .build();
    BlockingQueue<Written> written = new LinkedBlockingQueue<>();
    ConnectorHooks hooks =
        ConnectorHooks.none()
            .withListener(
                new TransferListener() {
                  @Override
                  public void transferCompleted(long nanos, long bytes, int descriptors) {
                    written.add(new Written(nanos, bytes, descriptors));
                  }
                });
    try (KvConnector connector = KvConnector.open(config, hooks)) {
      KvWorker worker = connector.openWorker();
      worker.registerKvCaches(cache.layout());
      commands.emit(
          "ready",
          "engine_id",
          connector.config().engineId(),
          "bootstrap",
          String.valueOf(connector.bootstrapAddress()),
          "transport",
          worker.transport(),
          "device",
          device.description(),
          "address",
          cache.address());
      Peer peer = new Peer(connector, worker, device, cache, args[3], written);
      commands.serve((name, command) -> commands.emit(DONE, DONE, peer.answer(name, command)));
    }
  }

  private Map<String, ?> answer(String name, JsonNode c) throws InterruptedException {
    return switch (name) {
      case "prefill" -> prefill(c);
      case "pull" -> pull(c);
      case "written" -> written();
      case "plain" -> plain(c.get("bytes").asLong());
      case "bare_address" -> Map.of("address", bare().address());
      case "bare" -> bare(c);
      case "engine_address" -> Map.of("address", sweep().address());
      case "sweep" -> {
        describe(c);
        yield sweep().write(c, list);
      }
      case "cuda" -> {
        describe(c);
        yield new CudaCosts(new CudaRuntime(), list).measure(c.get("rounds").asInt());
      }
      case "zero" -> {
        cache.zero();
        yield Map.of("zeroed", cache.bytes());
      }
      case "verify" -> Map.of("wrong_words", cache.wrongWords(sourceIds(c), targetIds(c)));
      default -> throw new IllegalArgumentException("unknown command: " + c);
    };
  }

  private int[] sourceIds(JsonNode c) {
    return ids(c, 0);
  }

  private int[] targetIds(JsonNode c) {
    return ids(c, 1);
  }

  private int[] ids(JsonNode c, int side) {
    return Pattern.valueOf(c.get("pattern").asString())
        .ids(c.get("count").asInt(), cache.blocks(), 2 * c.get("seed").asLong() + side);
  }

  /** The prefill has ended: the blocks can be fetched. */
  private Map<String, ?> prefill(JsonNode c) {
    String id = c.get("id").asString();
    int[] ids = sourceIds(c);
    KvRequest request =
        new KvRequest("p-" + id, ids.length * BLOCK_TOKENS, KvTransferParams.forPrefiller(id));
    written.clear();
    connector.scheduler().onRequestArrived(request);
    connector.scheduler().onBlocksAllocated(request, BlockIds.of(ids), 0);
    worker.startStep(connector.scheduler().buildStep());
    connector.scheduler().onRequestFinished(request, BlockIds.of(ids), FinishReason.LENGTH);
    worker.startStep(connector.scheduler().buildStep());
    return Map.of("prefilled", id);
  }

  /** From the start of the pull until the blocks are in place. */
  private Map<String, ?> pull(JsonNode c) throws InterruptedException {
    String id = c.get("id").asString();
    BlockIds ids = BlockIds.of(targetIds(c));
    KvRequest request =
        new KvRequest(
            "d-" + id,
            c.get("count").asInt() * BLOCK_TOKENS,
            KvTransferParams.forDecoder(
                id, c.get("engine_id").asString(), c.get("bootstrap").asString()));
    long start = System.nanoTime();
    connector.scheduler().onRequestArrived(request);
    MatchedTokens remote = connector.scheduler().matchedTokens(request, 0);
    connector.scheduler().onBlocksAllocated(request, ids, remote.tokens());
    worker.startStep(connector.scheduler().buildStep());
    while (true) {
      StepResult result = worker.await(PATIENCE);
      long nanos = System.nanoTime() - start;
      connector.scheduler().onStepResult(result);
      if (!result.failed().isEmpty()) {
        throw new IllegalStateException(String.valueOf(result.failed().getFirst()));
      }
      if (!result.received().isEmpty()) {
        connector.scheduler().onRequestFinished(request, ids, FinishReason.LENGTH);
        return Map.of("nanos", nanos);
      }
      if (nanos > PATIENCE.toNanos()) {
        throw new IllegalStateException("nothing received in " + PATIENCE);
      }
    }
  }

  /** What the prefiller says of its last write; its blocks are free again. */
  private Map<String, ?> written() throws InterruptedException {
    Written write = written.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    if (write == null) {
      throw new IllegalStateException("no write was told in " + PATIENCE);
    }
    for (boolean kept = true; kept; ) {
      StepResult result = worker.await(PATIENCE);
      connector.scheduler().onStepResult(result);
      kept = result.sent().isEmpty();
    }
    return Map.of(
        "nanos", write.nanos(), "bytes", write.bytes(), "descriptors", write.descriptors());
  }

  private Map<String, ?> plain(long bytes) {
    if (scratch == 0) {
      scratch = device.allocate(cache.bytes());
      device.plainCopyNanos(scratch, cache.address(), cache.bytes());
    }
    return Map.of("nanos", device.plainCopyNanos(scratch, cache.address(), bytes));
  }

  private BareEngine bare() {
    BareEngine engine = bare;
    if (engine == null) {
      engine = new BareEngine(transport, device.location(), cache.address(), cache.bytes());
      bare = engine;
    }
    return engine;
  }

  private Sweep sweep() {
    Sweep known = sweep;
    if (known == null) {
      known = new Sweep(transport, device.location(), cache.address(), cache.bytes());
      sweep = known;
    }
    return known;
  }

  private void describe(JsonNode c) {
    cache.describe(sourceIds(c), c.get("target").asLong(), targetIds(c), list);
  }

  private Map<String, ?> bare(JsonNode c) {
    describe(c);
    BareEngine.Took took = bare().write(c.get("peer").asString(), list);
    return Map.of(
        "nanos",
        took.total(),
        "submit",
        took.submit(),
        "copy",
        took.copy(),
        "poll",
        took.poll(),
        "descriptors",
        list.size());
  }
}
