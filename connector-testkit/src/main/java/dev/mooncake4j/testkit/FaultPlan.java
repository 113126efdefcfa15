package dev.mooncake4j.testkit;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.spi.NanoClock;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * What goes wrong in an in-memory engine, and when. Thread-safe.
 *
 * <p>Faults of single writes are taken in the order in which they were asked for, one by each write
 * that begins and has descriptors; a held write stays inside {@code write} until it is released or
 * expired, or its time has passed by the engine's clock. So a test drives a hanging engine without
 * any waiting of its own:
 *
 * <pre>{@code
 * faults.holdWrites();
 * // ... on another thread: engine.write(peer, descriptors, timeout)
 * faults.awaitHeldWrites(1, Duration.ofSeconds(10));
 * faults.expireHeldWrites(); // write returns TIMED_OUT, its quiet stage is pending
 * faults.finishExpiredWrites(); // the bytes arrive late, its quiet stage completes
 * }</pre>
 */
public final class FaultPlan {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Deque<WriteFault> next = new ArrayDeque<>();
  private final Set<Held> held = new LinkedHashSet<>();
  private final List<Held> expired = new ArrayList<>();
  private final Set<String> unreachable = new HashSet<>();
  private boolean holding;
  private Duration delay = Duration.ZERO;
  private int refusedRange = -1;
  private @Nullable KvConnectorException openFailure;
  private volatile boolean arrivalUnproven;

  /** A plan in which nothing goes wrong. */
  public FaultPlan() {}

  /** The next write fails before its first descriptor. */
  public void failNextWrite(String message) {
    failNextWrite(message, 0);
  }

  /**
   * The next write fails after some descriptors have been written (all, if it has fewer).
   *
   * @param written how many, at least 0
   */
  public void failNextWrite(String message, int written) {
    locked(() -> next.add(new WriteFault(message, atLeastZero("written", written))));
  }

  /**
   * The next write hangs after some descriptors have been written (all, if it has fewer).
   *
   * @param written how many, at least 0
   */
  public void holdNextWrite(int written) {
    locked(() -> next.add(new WriteFault(null, atLeastZero("written", written))));
  }

  /** From now on every write hangs before its first descriptor. */
  public void holdWrites() {
    locked(() -> holding = true);
  }

  /** Held writes go on and complete, and no further ones are held. */
  public void releaseWrites() {
    locked(
        () -> {
          holding = false;
          held.forEach(h -> h.state = HeldState.RELEASED);
          held.clear();
        });
  }

  /**
   * Held writes return {@code TIMED_OUT} now; what they had left to write is still under way until
   * {@link #finishExpiredWrites} or {@link #dropExpiredWrites}. Further writes are held as before.
   */
  public void expireHeldWrites() {
    locked(
        () -> {
          held.forEach(h -> h.state = HeldState.EXPIRED);
          expired.addAll(held);
          held.clear();
        });
  }

  /**
   * What expired writes had left to write arrives now, as far as both sides still have the memory
   * registered, and their quiet stages complete, on the calling thread.
   *
   * @return how many writes have ended
   */
  public int finishExpiredWrites() {
    return endExpired(true);
  }

  /**
   * What expired writes had left to write is lost and their quiet stages complete, on the calling
   * thread.
   *
   * @return how many writes have ended
   */
  public int dropExpiredWrites() {
    return endExpired(false);
  }

  private int endExpired(boolean write) {
    List<Held> ending = new ArrayList<>();
    locked(
        () -> {
          ending.addAll(expired);
          expired.clear();
        });
    for (Held h : ending) {
      h.ending.end(write);
      h.quiet.complete(null);
    }
    return ending.size();
  }

  /** Number of writes that hang now. */
  public int heldWrites() {
    lock.lock();
    try {
      return held.size();
    } finally {
      lock.unlock();
    }
  }

  /** Number of writes that have timed out and are not quiet. */
  public int expiredWrites() {
    lock.lock();
    try {
      return expired.size();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Waits in real time until so many writes hang.
   *
   * @throws AssertionError if they do not within the time
   */
  public void awaitHeldWrites(int count, Duration atMost) {
    long left = atMost.toNanos();
    lock.lock();
    try {
      while (held.size() < count) {
        if (left <= 0) {
          throw new AssertionError(
              "held_writes=" + held.size() + " after " + atMost + ", expected " + count);
        }
        left = changed.awaitNanos(left);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted while waiting for held writes", e);
    } finally {
      lock.unlock();
    }
  }

  /**
   * Every write takes this long by the engine's clock before its first descriptor, and counts as
   * held meanwhile; one whose timeout is not longer times out, and is then under way like an
   * expired one. {@link Duration#ZERO} ends it.
   */
  public void delayWrites(Duration delay) {
    locked(() -> this.delay = delay);
  }

  /** Writes to this {@code host:port} fail as to a machine that is not there. */
  public void cutOff(String peer) {
    locked(() -> unreachable.add(peer));
  }

  /** Writes to this {@code host:port} arrive again. */
  public void reconnect(String peer) {
    locked(() -> unreachable.remove(peer));
  }

  /**
   * The next registration fails at this range of its list, the first being 0; one with fewer ranges
   * passes and leaves the fault in place.
   */
  public void refuseRange(int index) {
    locked(() -> refusedRange = atLeastZero("index", index));
  }

  /** The provider's next engine does not open. */
  public void failNextOpen(KvConnectorException failure) {
    locked(() -> openFailure = failure);
  }

  /** From now on the engine says that a completed write proves nothing about its arrival. */
  public void disclaimArrival() {
    arrivalUnproven = true;
  }

  boolean arrivalUnproven() {
    return arrivalUnproven;
  }

  boolean isUnreachable(String peer) {
    lock.lock();
    try {
      return unreachable.contains(peer);
    } finally {
      lock.unlock();
    }
  }

  @Nullable KvConnectorException takeOpenFailure() {
    lock.lock();
    try {
      KvConnectorException failure = openFailure;
      openFailure = null;
      return failure;
    } finally {
      lock.unlock();
    }
  }

  /** The range to refuse of a registration with so many, or -1. */
  int takeRefusal(int ranges) {
    lock.lock();
    try {
      if (refusedRange >= ranges) {
        return -1;
      }
      int index = refusedRange;
      refusedRange = -1;
      return index;
    } finally {
      lock.unlock();
    }
  }

  /** The fault of the write that begins now, or {@code null} for none. */
  @Nullable WriteFault takeWriteFault() {
    lock.lock();
    try {
      WriteFault fault = next.poll();
      return fault == null && holding ? new WriteFault(null, 0) : fault;
    } finally {
      lock.unlock();
    }
  }

  Duration delay() {
    lock.lock();
    try {
      return delay;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Stays until the write is released, its time has passed, or its engine closes.
   *
   * @param goOn nanoseconds after which it goes on by itself, or -1 for never
   * @return the write as expired, or {@code null} if it is to go on
   */
  @Nullable Held hold(
      NanoClock clock,
      long startNanos,
      long timeoutNanos,
      long goOn,
      BooleanSupplier closed,
      Ending ending) {
    Held h = new Held(ending);
    boolean interrupted = false;
    lock.lock();
    try {
      held.add(h);
      changed.signalAll();
      while (h.state == HeldState.HELD) {
        long passed = clock.nanoTime() - startNanos;
        if (goOn >= 0 && passed >= goOn && goOn < timeoutNanos) {
          h.state = HeldState.RELEASED;
        } else if (passed >= timeoutNanos || closed.getAsBoolean()) {
          h.state = HeldState.EXPIRED;
          expired.add(h);
        } else {
          try {
            // The clock may be one that a test moves, of which no wait is told: look often.
            changed.await(1, TimeUnit.MILLISECONDS);
          } catch (InterruptedException e) {
            interrupted = true;
          }
        }
      }
      held.remove(h);
      changed.signalAll();
      return h.state == HeldState.EXPIRED ? h : null;
    } finally {
      lock.unlock();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private void locked(Runnable change) {
    lock.lock();
    try {
      change.run();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private static int atLeastZero(String name, int value) {
    if (value < 0) {
      throw new IllegalArgumentException(name + "=" + value + " is negative");
    }
    return value;
  }

  /**
   * A fault of one write.
   *
   * @param failure what it fails with, or {@code null} to hang
   * @param written descriptors that are written before
   */
  record WriteFault(@Nullable String failure, int written) {}

  /** Ends a write that had expired, with or without writing the rest. */
  @FunctionalInterface
  interface Ending {
    void end(boolean write);
  }

  private enum HeldState {
    HELD,
    RELEASED,
    EXPIRED
  }

  /** A write that hangs; its state is guarded by the plan's lock. */
  static final class Held {
    final CompletableFuture<Void> quiet = new CompletableFuture<>();
    final Ending ending;
    private HeldState state = HeldState.HELD;

    private Held(Ending ending) {
      this.ending = ending;
    }
  }
}
