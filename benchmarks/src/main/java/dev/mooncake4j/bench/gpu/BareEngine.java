package dev.mooncake4j.bench.gpu;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.mooncake4j.connector.HostAddresses;
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

/**
 * The engine alone: one batch, submitted by one thread, which then asks for each descriptor until
 * it is done. What the connector is measured against. One thread at a time.
 */
final class BareEngine {
  private static final String HOST = "127.0.0.1";
  private static final long REST_NANOS = 1_000_000;

  private final String transport;
  private final MemorySegment engine;
  private final String address;
  private final Map<String, Integer> segments = new HashMap<>();

  /** An engine with one transport and one piece of memory, kept until the process ends. */
  BareEngine(String transport, String location, long memory, long bytes) {
    this.transport = transport;
    EngineLibrary library = EngineLibrary.open(null, false);
    engine = library.create(HOST, List.of());
    if (engine.address() == 0) {
      throw new IllegalStateException("createTransferEngine: " + library.explained());
    }
    try (Arena arena = Arena.ofConfined()) {
      if (TransferEngineC.installTransport(
                  engine, arena.allocateFrom(transport), MemorySegment.NULL)
              .address()
          == 0) {
        throw new IllegalStateException(
            "installTransport " + transport + ": " + library.explained());
      }
      int code =
          TransferEngineC.registerLocalMemory(
              engine, MemorySegment.ofAddress(memory), bytes, arena.allocateFrom(location), 1);
      if (code != 0) {
        throw new IllegalStateException(
            "registerLocalMemory code=" + code + ": " + library.explained());
      }
    }
    address = HostAddresses.join(HOST, EngineLibrary.port(engine));
  }

  /** {@code host:port}. */
  String address() {
    return address;
  }

  /**
   * What a batch took, in nanoseconds.
   *
   * @param submit the call that submits
   * @param copy from there until the first descriptor is done
   * @param poll from there until each has been asked for
   */
  record Took(long submit, long copy, long poll) {
    long total() {
      return submit + copy + poll;
    }
  }

  /** Writes it all as one batch. */
  Took write(String peer, DescriptorList list) {
    int segment = segments.computeIfAbsent(peer, this::open);
    int count = list.size();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment requests = arena.allocate(transfer_request.layout(), count);
      MemorySegment status = arena.allocate(transfer_status.layout());
      for (int i = 0; i < count; i++) {
        long at = i * transfer_request.sizeof();
        requests.set(
            JAVA_INT, at + transfer_request.opcode$offset(), TransferEngineC.OPCODE_WRITE());
        requests.set(JAVA_LONG, at + transfer_request.source$offset(), list.source(i));
        requests.set(JAVA_INT, at + transfer_request.target_id$offset(), segment);
        requests.set(JAVA_LONG, at + transfer_request.target_offset$offset(), list.destination(i));
        requests.set(JAVA_LONG, at + transfer_request.length$offset(), list.length(i));
      }
      long start = System.nanoTime();
      long batch = TransferEngineC.allocateBatchID(engine, count);
      int code = TransferEngineC.submitTransfer(engine, batch, requests, count);
      long submitted = System.nanoTime();
      if (code != 0) {
        throw new IllegalStateException(
            "submitTransfer of " + count + " descriptors: code=" + code);
      }
      await(batch, 0, status);
      long first = System.nanoTime();
      for (int task = 1; task < count; task++) {
        await(batch, task, status);
      }
      long done = System.nanoTime();
      boolean copiesInSubmitter = !transport.equals("tcp");
      if (!copiesInSubmitter) {
        // Its threads use a batch for a moment longer.
        LockSupport.parkNanos(REST_NANOS);
      }
      if (TransferEngineC.freeBatchID(engine, batch) != 0) {
        throw new IllegalStateException("freeBatchID: busy");
      }
      // Where no thread of the engine has the batch, freeing it is part of the cost.
      long end = copiesInSubmitter ? System.nanoTime() : done;
      return new Took(submitted - start, first - submitted, end - first);
    }
  }

  private void await(long batch, int task, MemorySegment status) {
    while (true) {
      int code = TransferEngineC.getTransferStatus(engine, batch, task, status);
      int state = status.get(JAVA_INT, transfer_status.status$offset());
      if (code == 0 && state == TransferEngineC.STATUS_COMPLETED()) {
        return;
      }
      if (code != 0
          || (state != TransferEngineC.STATUS_WAITING()
              && state != TransferEngineC.STATUS_PENDING())) {
        throw new IllegalStateException("task=" + task + ": code=" + code + " state=" + state);
      }
      Thread.onSpinWait();
    }
  }

  private int open(String peer) {
    try (Arena arena = Arena.ofConfined()) {
      int segment = TransferEngineC.openSegment(engine, arena.allocateFrom(peer));
      if (segment < 0) {
        throw new IllegalStateException("openSegment " + peer + ": it does not answer");
      }
      return segment;
    }
  }
}
