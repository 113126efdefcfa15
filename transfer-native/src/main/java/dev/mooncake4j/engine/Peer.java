package dev.mooncake4j.engine;

import dev.mooncake4j.engine.ffi.TransferEngineC;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * What is known of one peer: the handle of its segment, and how much is in flight to it.
 *
 * <p>Opening a segment asks the peer for its registered memory, and a peer that accepts connections
 * and says nothing keeps the engine waiting for a minute. So a thread of its own opens it, once for
 * all who wait, and each waits as long as it may. Thread-safe.
 */
final class Peer {
  /** The peer does not answer. */
  static final int UNREACHABLE = -1;

  /** The peer has not answered yet. */
  static final int NOT_IN_TIME = -2;

  /** The engine closes. */
  static final int CLOSING = -3;

  private static final int UNKNOWN = -4;

  final String name;
  final InFlightLimit limit;

  private final EngineCore core;
  private int segment = UNKNOWN;

  /** Whether the engine has the peer's segment in its cache, perhaps an old one. */
  private boolean cached;

  /** Writes that hold the handle. */
  private int holders;

  private @Nullable CompletableFuture<Integer> opening;

  Peer(EngineCore core, String name, int limit) {
    this.core = core;
    this.name = name;
    this.limit = new InFlightLimit(limit);
  }

  /**
   * The handle of the peer's segment, to be given back with {@link #release} if it is 0 or more;
   * otherwise {@link #UNREACHABLE}, {@link #NOT_IN_TIME} or {@link #CLOSING}.
   *
   * @throws InterruptedException if interrupted while waiting; nothing is to be given back
   */
  int acquire(long deadlineNanos) throws InterruptedException {
    while (true) {
      CompletableFuture<Integer> answer;
      synchronized (this) {
        if (segment >= 0) {
          holders++;
          return segment;
        }
        answer = opening;
        if (answer == null) {
          answer = open();
        }
      }
      long left = deadlineNanos - core.clock.nanoTime();
      if (left <= 0 && !answer.isDone()) {
        return NOT_IN_TIME;
      }
      try {
        int opened = answer.get(Math.max(0, left), TimeUnit.NANOSECONDS);
        if (opened < 0) {
          return opened;
        }
      } catch (TimeoutException e) {
        // By the system's time; the clock decides.
      } catch (ExecutionException e) {
        throw new IllegalStateException("opening peer=" + name + " ended with an error", e);
      }
    }
  }

  /** A write is done with the handle. */
  synchronized void release() {
    holders--;
  }

  /** The next write asks the peer again for what it has registered. */
  synchronized void forget() {
    segment = UNKNOWN;
  }

  private CompletableFuture<Integer> open() {
    CompletableFuture<Integer> answer = new CompletableFuture<>();
    opening = answer;
    // The engine looks segments up by their handle while it writes: what is in use is replaced
    // below it, and only what nobody uses can be taken away.
    boolean replace = cached && (holders > 0 || !limit.isIdle());
    boolean remove = cached && !replace && !name.equals(core.address);
    try {
      Thread.ofPlatform()
          .daemon()
          .name("m4j-engine-open-" + name)
          .start(() -> open(replace, remove, answer));
    } catch (Error e) {
      // No thread to be had: this write fails with it, and the next one tries again.
      opening = null;
      throw e;
    }
    return answer;
  }

  private void open(boolean replace, boolean remove, CompletableFuture<Integer> answer) {
    int opened = CLOSING;
    try {
      if (core.tryEnter()) {
        try {
          opened = open(replace, remove);
        } finally {
          core.exit();
        }
      }
    } finally {
      opened(opened);
      answer.complete(opened);
    }
  }

  private int open(boolean replace, boolean remove) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocateFrom(name);
      int handle;
      if (replace) {
        handle = TransferEngineC.openSegmentNoCache(core.handle, text);
      } else {
        if (remove) {
          // Drops the engine's copy; where that fails the answer is as old as before.
          int code = TransferEngineC.removeLocalSegment(core.handle, text);
          assert code == 0 : code;
        }
        handle = TransferEngineC.openSegment(core.handle, text);
      }
      return handle < 0 ? UNREACHABLE : handle;
    }
  }

  private synchronized void opened(int handle) {
    opening = null;
    if (handle >= 0) {
      segment = handle;
      cached = true;
    }
  }
}
