package dev.mooncake4j.it;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConfigurationException;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepResult;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * One rank of a prefiller, a decoder or both, around the connector's public interface alone.
 *
 * <p>Standard input, JSON lines:
 *
 * <pre>
 * prefiller
 *  {"transfer_id","req_id","block_ids":[..]}      the prefill is done, the blocks can be fetched
 *  {"cmd":"alloc", as above}                      the prefill has begun
 *  {"cmd":"finish","req_id"[,"reason":"STOP"]}    a prefill that has begun ends
 *  {"cmd":"abort","req_id"}                       a prefill that has begun is given up
 *  {"cmd":"progress","req_id","finished_tokens":n[,"fill":seed]}
 *                                                 so much of it is computed; with a seed its finished
 *                                                 blocks are filled first, and no others
 *  {"cmd":"play","req_id","transfer_id","block_ids","chunks":n,"pause_us":m[,"tell":bool]}
 *                                                 a prefill of n chunks that take m microseconds each,
 *                                                 told after each one or not; prefill_ended has at_ns,
 *                                                 on the clock of the at_ns of finished_recving
 * decoder
 *  {"req_id","transfer_id","remote_engine_id","remote_bootstrap_addr","block_ids"[,"cached_blocks":n]}
 *                                                 fetch, behind n blocks that are cached here
 *  {"cmd":"pull_batch","reqs":[ .. as above .. ]} several in one scheduler step
 *  {"cmd":"arrive", as above}                     the request is queued and fetches nothing yet
 *  {"cmd":"release", as above}                    it ended before it was scheduled
 *  {"cmd":"abort","req_id"}                       it is given up while it is being fetched
 * either
 *  {"cmd":"let_go","transfer_id"}                 a router lets a transfer go
 *  {"cmd":"checksum","block_ids":[..],"per_layer":bool,"id":any}
 *  {"cmd":"nonzero","block_ids","id"} {"cmd":"touched","block_ids","id"}
 *  {"cmd":"fill","seed"} {"cmd":"zero"} {"cmd":"stats"} {"cmd":"state"}
 *  {"cmd":"sleep"} {"cmd":"wake"} {"cmd":"quit"}
 *  {"cmd":"close_arena"}                          frees the memory while it is registered: a mistake
 * </pre>
 *
 * <p>Standard output, JSON lines: {@code ready}, {@code accepted}, {@code send_blocks}, {@code
 * finished_sending}, {@code pulling}, {@code finished_recving}, {@code load_error_blocks}, {@code
 * failed} and an answer to each command; {@code start_failed} if there is nothing to drive. All
 * else goes to standard error. Options: {@link PeerOptions}. Exit codes: 0 after {@code quit} or
 * the end of standard input, 1 if the start failed, 2 for bad options, 143 after SIGTERM.
 */
public final class PeerMain {
  private static final Duration RESULT_WAIT = Duration.ofSeconds(1);

  private final PeerOptions options;
  private final EventWriter events;
  private final KvConnector connector;
  private final KvWorker worker;
  private final PeerCache cache;
  private final PeerServer server;
  private final TransferRecorder recorder;
  private final BlockingQueue<Input> inbox;
  private final JsonMapper json = JsonMapper.builder().build();
  private volatile boolean stopping;

  /** What the one thread of the peer takes in turn. */
  private sealed interface Input {
    record Command(String line) implements Input {}

    record Result(StepResult result, long at) implements Input {}

    record Written(TransferRecorder.Write write) implements Input {}

    record Chunk(PrefillPlay play, int finished) implements Input {}

    record Unhealthy() implements Input {}

    record End() implements Input {}
  }

  private PeerMain(
      PeerOptions options,
      EventWriter events,
      KvConnector connector,
      KvWorker worker,
      PeerCache cache,
      TransferRecorder recorder,
      BlockingQueue<Input> inbox) {
    this.options = options;
    this.events = events;
    this.connector = connector;
    this.worker = worker;
    this.cache = cache;
    this.recorder = recorder;
    this.inbox = inbox;
    this.server = new PeerServer(events, connector, worker, options.blockSize());
  }

  /** Runs one peer until it is told to quit or its standard input ends. */
  public static void main(String[] args) throws InterruptedException {
    PrintStream out = System.out;
    // Whatever prints goes to standard error; standard output is for events alone.
    System.setOut(System.err);
    EventWriter events = new EventWriter(out);
    PeerOptions options;
    try {
      options = PeerOptions.parse(args);
    } catch (IllegalArgumentException e) {
      System.exit(startFailed(events, e, 2));
      return;
    }
    System.exit(run(options, events));
  }

  private static int run(PeerOptions options, EventWriter events) throws InterruptedException {
    BlockingQueue<Input> inbox = new LinkedBlockingQueue<>();
    TransferRecorder recorder = new TransferRecorder(w -> inbox.add(new Input.Written(w)));
    KvConnector connector;
    try {
      connector =
          KvConnector.open(options.connectorConfig(), ConnectorHooks.none().withListener(recorder));
    } catch (ConfigurationException e) {
      return startFailed(events, e, 2);
    }
    // As a server does it: who waits for us is told, also when we are terminated.
    Runtime.getRuntime().addShutdownHook(new Thread(connector::close, "close-connector"));
    try (PeerCache cache = new PeerCache(options);
        connector) {
      KvWorker worker = connector.openWorker(options.rank());
      worker.registerKvCaches(cache.layout());
      new PeerMain(options, events, connector, worker, cache, recorder, inbox).serve();
    } catch (RuntimeException e) {
      return startFailed(events, e, 1);
    }
    events.emit("exit");
    return 0;
  }

  private static int startFailed(EventWriter events, RuntimeException e, int code) {
    e.printStackTrace();
    events.emit("start_failed", "error", e.getClass().getSimpleName(), "message", e.getMessage());
    return code;
  }

  private void serve() throws InterruptedException {
    ready();
    Thread results = Thread.ofPlatform().daemon().name("results").start(this::takeResults);
    Thread.ofPlatform().daemon().name("commands").start(this::readCommands);
    while (!stopping) {
      handle(inbox.take());
    }
    stats();
    connector.close();
    results.join(Duration.ofSeconds(10));
    for (Input left = inbox.poll(); left != null; left = inbox.poll()) {
      if (left instanceof Input.Result(StepResult result, long at)) {
        report(result, at);
      }
    }
    report(worker.poll(), System.nanoTime());
  }

  /** After the worker has closed: what it still reports is told and leads to nothing. */
  private void report(StepResult result, long at) {
    if (!result.isEmpty()) {
      try {
        server.onResult(result, at);
      } catch (IllegalStateException e) {
        System.err.println("after closing: " + e.getMessage());
      }
    }
  }

  private void takeResults() {
    try {
      while (!stopping) {
        StepResult result = worker.await(RESULT_WAIT);
        if (!result.isEmpty()) {
          inbox.add(new Input.Result(result, System.nanoTime()));
        } else if (!stopping && !worker.isHealthy()) {
          inbox.add(new Input.Unhealthy());
          return;
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void readCommands() {
    try (BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        if (!line.isBlank()) {
          inbox.add(new Input.Command(line));
        }
      }
    } catch (IOException e) {
      System.err.println("standard input: " + e.getMessage());
    }
    inbox.add(new Input.End());
  }

  private void handle(Input input) {
    switch (input) {
      case Input.Command(String line) -> {
        try {
          command(json.readTree(line));
        } catch (RuntimeException e) { // a bad command must not end the peer
          e.printStackTrace();
          events.emit(
              "command_error",
              "error",
              e.getClass().getSimpleName() + ": " + e.getMessage(),
              "line",
              line.length() > 1000 ? line.substring(0, 1000) : line);
        }
      }
      case Input.Result(StepResult result, long at) -> server.onResult(result, at);
      case Input.Written(TransferRecorder.Write write) ->
          events.emit(
              "send_blocks",
              "ret",
              write.ok() ? 0 : -1,
              "num_descs",
              write.descriptors(),
              "bytes",
              write.bytes(),
              "seconds",
              write.seconds(),
              "reason",
              write.reason());
      case Input.Chunk(PrefillPlay play, int finished) -> chunk(play, finished);
      case Input.Unhealthy() -> events.emit("unhealthy");
      case Input.End() -> stopping = true;
    }
  }

  private void ready() {
    URI bootstrap = connector.bootstrapAddress();
    events.emit(
        "ready",
        "role",
        options.role().configName(),
        "pid",
        ProcessHandle.current().pid(),
        "engine_id",
        connector.config().engineId(),
        "bootstrap",
        bootstrap == null ? null : bootstrap.toString(),
        "layers",
        cache.layerCount(),
        "num_blocks",
        options.numBlocks(),
        "block_len",
        options.blockBytes(),
        "kv_block_len",
        options.blockBytes(),
        "regions",
        cache.layout().regions().size(),
        "registered",
        cache.layout().memories().size(),
        "tp",
        List.of(options.rank().tpRank(), options.rank().tpSize()),
        "pp",
        List.of(options.rank().ppRank(), options.rank().ppSize()),
        "transport",
        worker.transport());
  }

  private void command(JsonNode c) {
    switch (c.path("cmd").asString("")) {
      case "" -> {
        if (c.has("remote_engine_id")) {
          server.pull(List.of(pull(c)));
        } else {
          announce(c);
          finished("accepted", c, FinishReason.LENGTH);
        }
      }
      case "alloc" -> {
        announce(c);
        events.emit("allocated", "req_id", text(c, "req_id"));
      }
      case "finish" ->
          finished("finished", c, FinishReason.valueOf(c.path("reason").asString("LENGTH")));
      case "abort" -> finished("aborted", c, FinishReason.ABORTED);
      case "progress" -> progress(c);
      case "play" -> {
        announce(c);
        events.emit("allocated", "req_id", text(c, "req_id"));
        new PrefillPlay(
                text(c, "req_id"),
                blocks(c).length * options.blockSize(),
                c.path("chunks").asInt(8),
                c.path("pause_us").asLong(0),
                c.path("tell").asBoolean(true))
            .start((play, finished) -> inbox.add(new Input.Chunk(play, finished)));
      }
      case "pull_batch" -> {
        List<PeerServer.PullCommand> pulls = new ArrayList<>();
        for (JsonNode each : c.path("reqs")) {
          pulls.add(pull(each));
        }
        server.pull(pulls);
      }
      case "arrive" -> {
        server.arrive(pull(c));
        events.emit("arrived", "req_id", text(c, "req_id"));
      }
      case "release" -> server.releaseUnscheduled(pull(c));
      case "let_go" -> {
        worker.release(text(c, "transfer_id"));
        events.emit("let_go", "transfer_id", text(c, "transfer_id"));
      }
      case "sleep" -> {
        worker.unregisterKvCaches();
        events.emit("asleep");
      }
      case "wake" -> {
        worker.restoreKvCaches();
        events.emit("awake");
      }
      case "close_arena" -> {
        cache.close();
        events.emit("arena_closed");
      }
      case "quit" -> stopping = true;
      default -> ask(c);
    }
  }

  private void progress(JsonNode c) {
    String requestId = text(c, "req_id");
    int tokens = c.path("finished_tokens").asInt();
    if (c.has("fill")) {
      int[] all = server.blocks(requestId).toArray(0);
      int whole = Math.min(all.length, tokens / options.blockSize());
      cache.fillBlocks(c.path("fill").asLong(), Arrays.copyOf(all, whole));
    }
    server.progress(requestId, tokens);
    events.emit("progressed", "req_id", requestId);
  }

  /** A chunk of a prefill that is played is over, and with the last one the prefill. */
  private void chunk(PrefillPlay play, int finished) {
    if (play.tell()) {
      server.progress(play.requestId(), play.tokensAfter(finished));
    }
    if (finished == play.chunks()) {
      long at = System.nanoTime();
      server.finish(play.requestId(), FinishReason.LENGTH);
      events.emit("prefill_ended", "req_id", play.requestId(), "at_ns", at);
    }
  }

  /** Commands that only look at the memory, or fill it. */
  private void ask(JsonNode c) {
    switch (text(c, "cmd")) {
      case "checksum" -> {
        int[] blocks = blocks(c);
        events.emit(
            "checksum",
            "id",
            c.get("id"),
            "sha256",
            cache.sha256(blocks),
            "per_layer",
            c.path("per_layer").asBoolean(false) ? cache.sha256PerLayer(blocks) : null);
      }
      case "nonzero" -> events.emit("nonzero", "id", c.get("id"), "n", cache.nonzero(blocks(c)));
      case "touched" -> events.emit("touched", "id", c.get("id"), "n", cache.touched(blocks(c)));
      case "fill" -> {
        cache.fill(c.path("seed").asLong());
        events.emit("filled", "seed", c.path("seed").asLong());
      }
      case "zero" -> {
        cache.zero();
        events.emit("zeroed");
      }
      case "stats" -> stats();
      case "state" ->
          events.emit("state", PeerState.fields(worker, server.outstanding()).toArray());
      default -> throw new IllegalArgumentException("unknown cmd " + c.path("cmd"));
    }
  }

  private void announce(JsonNode c) {
    server.announce(text(c, "req_id"), text(c, "transfer_id"), blocks(c));
  }

  private void finished(String event, JsonNode c, FinishReason reason) {
    FinishDecision decision = server.finish(text(c, "req_id"), reason);
    JsonNode transferId = c.get("transfer_id");
    events.emit(
        event,
        "req_id",
        text(c, "req_id"),
        "transfer_id",
        transferId,
        "delay_free",
        decision.keepBlocks(),
        "kv_transfer_params",
        null);
  }

  private void stats() {
    events.emit("stats", "data", recorder.take());
  }

  private static PeerServer.PullCommand pull(JsonNode c) {
    return new PeerServer.PullCommand(
        text(c, "req_id"),
        text(c, "transfer_id"),
        text(c, "remote_engine_id"),
        text(c, "remote_bootstrap_addr"),
        BlockIds.of(blocks(c)),
        c.path("cached_blocks").asInt(0));
  }

  private static String text(JsonNode c, String name) {
    @Nullable JsonNode value = c.get(name);
    if (value == null || !value.isString()) {
      throw new IllegalArgumentException(name + " is missing or not a string");
    }
    return value.asString();
  }

  private static int[] blocks(JsonNode c) {
    JsonNode list = c.path("block_ids");
    int[] blocks = new int[list.size()];
    for (int i = 0; i < blocks.length; i++) {
      blocks[i] = list.get(i).intValue();
    }
    return blocks;
  }
}
