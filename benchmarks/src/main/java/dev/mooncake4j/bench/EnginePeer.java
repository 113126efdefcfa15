package dev.mooncake4j.bench;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.mooncake4j.bench.measure.Commands;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.engine.ffi.TransferEngineC;
import dev.mooncake4j.engine.ffi.transfer_request;
import dev.mooncake4j.engine.ffi.transfer_status;
import dev.mooncake4j.engine.load.EngineLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import tools.jackson.databind.JsonNode;

/**
 * The engine alone, the floor under every connector: one batch, submitted and polled by a bare loop
 * over the native bindings, with the settings that the connector gives the engine.
 *
 * <p>Arguments: layers, blocks, bytes of a block, seed. Commands: {@code write} ({@code peer},
 * {@code remote}: the peer's address in memory, {@code source}, {@code destination}: block ids,
 * {@code poll}: {@code spin} or {@code park}) answered by {@code written}, whose {@code seconds}
 * are those from the allocation of the batch to its release; {@code checksum}, {@code zero}, {@code
 * quit} as in {@link BenchPeer}.
 */
public final class EnginePeer {
  private static final int COMPLETED = TransferEngineC.STATUS_COMPLETED();
  private static final int WAITING = TransferEngineC.STATUS_WAITING();
  private static final int PENDING = TransferEngineC.STATUS_PENDING();
  private static final int MOST_FREES = 1000;
  private static final long REST_NANOS = 1_000_000;
  private static final long PARK_NANOS = 50_000;

  private final Commands commands;
  private final MemorySegment engine;
  private final BenchCache cache;
  private final Map<String, Integer> segments = new HashMap<>();
  private final MemorySegment status = Arena.global().allocate(transfer_status.layout());

  private EnginePeer(Commands commands, MemorySegment engine, BenchCache cache) {
    this.commands = commands;
    this.engine = engine;
    this.cache = cache;
  }

  /** Runs one engine until {@code quit} or the end of standard input. */
  public static void main(String[] args) throws InterruptedException {
    Commands commands = Commands.open();
    BenchCache cache =
        new BenchCache(
            Integer.parseInt(args[0]), Integer.parseInt(args[1]), Integer.parseInt(args[2]));
    cache.fill(Long.parseLong(args[3]));
    EngineLibrary library = EngineLibrary.open(null, false);
    MemorySegment engine = library.create("127.0.0.1", List.of());
    try (Arena arena = Arena.ofConfined()) {
      check(
          engine.address() != 0
              && TransferEngineC.installTransport(
                          engine, arena.allocateFrom("tcp"), MemorySegment.NULL)
                      .address()
                  != 0,
          "the engine does not start: " + library.explained());
      int code =
          TransferEngineC.registerLocalMemory(
              engine,
              MemorySegment.ofAddress(cache.address()),
              cache.bytes(),
              arena.allocateFrom("cpu:0"),
              1);
      check(code == 0, "registerLocalMemory code=" + code);
    }
    commands.emit(
        "ready",
        "pid",
        ProcessHandle.current().pid(),
        "address",
        "127.0.0.1:" + EngineLibrary.port(engine),
        "memory",
        cache.address());
    commands.serve(new EnginePeer(commands, engine, cache)::handle);
    System.exit(0);
  }

  private static void check(boolean holds, String otherwise) {
    if (!holds) {
      throw new IllegalStateException(otherwise);
    }
  }

  private void handle(String name, JsonNode command) {
    switch (name) {
      case "write" -> write(command);
      case "checksum" ->
          commands.emit("checksum", "sha256", cache.sha256(Commands.ids(command, "block_ids")));
      case "zero" -> {
        cache.zero(Commands.ids(command, "block_ids"));
        commands.emit("zeroed");
      }
      default -> throw new IllegalArgumentException("unknown cmd=" + name);
    }
  }

  private void write(JsonNode command) {
    int segment = segments.computeIfAbsent(command.path("peer").asString(), this::openSegment);
    boolean spin = command.path("poll").asString().equals("spin");
    int[] source = Commands.ids(command, "source");
    int[] destination = Commands.ids(command, "destination");
    long remote = command.path("remote").longValue();
    try (Arena arena = Arena.ofConfined();
        DescriptorList copies = new DescriptorList(cache.layers() * source.length)) {
      for (int layer = 0; layer < cache.layers(); layer++) {
        for (int i = 0; i < source.length; i++) {
          copies.add(
              cache.address() + cache.offset(layer, source[i]),
              remote + cache.offset(layer, destination[i]),
              cache.blockBytes());
        }
      }
      int count = copies.size();
      MemorySegment requests = requests(arena, copies, segment);
      long start = System.nanoTime();
      long batch = TransferEngineC.allocateBatchID(engine, count);
      int code = TransferEngineC.submitTransfer(engine, batch, requests, count);
      boolean good = code == 0;
      for (int task = 0; task < count; task++) {
        good &= await(batch, task, spin);
      }
      double seconds = (System.nanoTime() - start) / 1e9;
      int freed = free(batch);
      check(good && freed == 0, "the batch failed, submit code=" + code + ", free code=" + freed);
      commands.emit("written", "seconds", seconds, "descriptors", count);
    }
  }

  /** Not at once, and not in the time taken: the engine's threads use it for a moment longer. */
  private int free(long batch) {
    int code = -1;
    for (int i = 0; code != 0 && i < MOST_FREES; i++) {
      LockSupport.parkNanos(REST_NANOS);
      code = TransferEngineC.freeBatchID(engine, batch);
    }
    return code;
  }

  private boolean await(long batch, int task, boolean spin) {
    while (true) {
      if (TransferEngineC.getTransferStatus(engine, batch, task, status) != 0) {
        return false;
      }
      int state = status.get(JAVA_INT, transfer_status.status$offset());
      if (state != WAITING && state != PENDING) {
        return state == COMPLETED;
      }
      if (spin) {
        Thread.onSpinWait();
      } else {
        LockSupport.parkNanos(PARK_NANOS);
      }
    }
  }

  private int openSegment(String peer) {
    try (Arena arena = Arena.ofConfined()) {
      int segment = TransferEngineC.openSegment(engine, arena.allocateFrom(peer));
      check(segment >= 0, "peer=" + peer + " cannot be opened");
      return segment;
    }
  }

  private static MemorySegment requests(Arena arena, DescriptorList copies, int segment) {
    MemorySegment requests = arena.allocate(transfer_request.layout(), copies.size());
    long at = 0;
    for (int i = 0; i < copies.size(); i++) {
      requests.set(JAVA_INT, at + transfer_request.opcode$offset(), TransferEngineC.OPCODE_WRITE());
      requests.set(JAVA_LONG, at + transfer_request.source$offset(), copies.source(i));
      requests.set(JAVA_INT, at + transfer_request.target_id$offset(), segment);
      requests.set(JAVA_LONG, at + transfer_request.target_offset$offset(), copies.destination(i));
      requests.set(JAVA_LONG, at + transfer_request.length$offset(), copies.length(i));
      at += transfer_request.sizeof();
    }
    return requests;
  }
}
