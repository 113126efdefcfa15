package dev.mooncake4j.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.engine.ffi.TransferEngineC;
import dev.mooncake4j.engine.ffi.transfer_request;
import dev.mooncake4j.engine.ffi.transfer_status;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Memory outside the heap for the requests of one window, kept for the next write. As many as there
 * ever were writes at a time; freed with the engine. Thread-safe; a buffer is one write's.
 */
final class RequestBuffers implements AutoCloseable {
  private static final long REQUEST = transfer_request.sizeof();
  private static final long OPCODE = transfer_request.opcode$offset();
  private static final long SOURCE = transfer_request.source$offset();
  private static final long TARGET_ID = transfer_request.target_id$offset();
  private static final long TARGET_OFFSET = transfer_request.target_offset$offset();
  private static final long LENGTH = transfer_request.length$offset();

  private final Arena arena = Arena.ofShared();
  private final ConcurrentLinkedQueue<Buffer> free = new ConcurrentLinkedQueue<>();
  private final int window;

  /** Buffers for up to {@code window} requests each. */
  RequestBuffers(int window) {
    this.window = window;
  }

  Buffer take() {
    Buffer buffer = free.poll();
    return buffer == null ? new Buffer(arena, window) : buffer;
  }

  void giveBack(Buffer buffer) {
    free.add(buffer);
  }

  @Override
  public void close() {
    arena.close();
  }

  /** Requests of one window, and one status. */
  static final class Buffer {
    final MemorySegment requests;
    final MemorySegment status;

    Buffer(Arena arena, int window) {
      requests = arena.allocate(REQUEST * window, 8);
      status = arena.allocate(transfer_status.layout());
    }

    /** Fills in writes of the descriptors from {@code first} on. */
    void fill(DescriptorList list, int first, int count, int segment) {
      MemorySegment to = requests;
      int write = TransferEngineC.OPCODE_WRITE();
      long at = 0;
      for (int i = first; i < first + count; i++) {
        to.set(JAVA_INT, at + OPCODE, write);
        to.set(JAVA_LONG, at + SOURCE, list.source(i));
        to.set(JAVA_INT, at + TARGET_ID, segment);
        to.set(JAVA_LONG, at + TARGET_OFFSET, list.destination(i));
        to.set(JAVA_LONG, at + LENGTH, list.length(i));
        at += REQUEST;
      }
    }
  }
}
