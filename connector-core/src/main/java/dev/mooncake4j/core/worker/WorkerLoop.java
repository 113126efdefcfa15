package dev.mooncake4j.core.worker;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.consumer.Consumer;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.producer.Producer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Drives one worker's event loop and side channel on one thread, or, in tests, by hand.
 *
 * <p>If the thread dies of an error it fails all that is under way first and the worker is
 * unhealthy from then on.
 */
final class WorkerLoop implements SideChannel.Events {
  private static final Logger LOG = LoggerFactory.getLogger(WorkerLoop.class);

  /** The longest wait for frames: bounds how late a lost wake-up is noticed. */
  private static final long MAX_WAIT_NANOS = TimeUnit.SECONDS.toNanos(1);

  /** How long the last answers of a closing worker may take to leave. */
  private static final long FLUSH_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final EventLoop events;
  private final SideChannel channel;
  private final @Nullable Producer producer;
  private final @Nullable Consumer consumer;
  private @Nullable Thread thread;
  private volatile boolean stopping;
  private volatile boolean dead;
  private volatile boolean closesChannel;

  WorkerLoop(
      EventLoop events,
      SideChannel channel,
      @Nullable Producer producer,
      @Nullable Consumer consumer) {
    this.events = events;
    this.channel = channel;
    this.producer = producer;
    this.consumer = consumer;
    events.onWakeup(channel::wakeup);
  }

  void start(String name) {
    Thread driver = Thread.ofPlatform().name("m4j-loop-" + name).daemon().unstarted(this::drive);
    // Set first: an event may ask which thread it runs on.
    thread = driver;
    driver.start();
  }

  private void drive() {
    try {
      while (!stopping) {
        turn(MAX_WAIT_NANOS);
      }
      long end = System.nanoTime() + FLUSH_NANOS;
      for (long left = FLUSH_NANOS; left > 0; left = end - System.nanoTime()) {
        turn(left);
      }
    } catch (RuntimeException | Error e) {
      dead = true;
      LOG.error("the worker loop died: the connector is unhealthy, restart it", e);
      failAll("the worker loop died: " + e);
      refuseAll();
    } finally {
      // What was posted until now is refused by halves that are closed; left alone it would never
      // end for those who wait for it.
      events.runDue();
      if (closesChannel) {
        channel.close();
      }
    }
  }

  /** The side channel is lost; whatever is still asked of the loop is refused, not left to hang. */
  private void refuseAll() {
    Thread driver = Thread.currentThread();
    events.onWakeup(() -> LockSupport.unpark(driver));
    while (!stopping) {
      events.runDue();
      LockSupport.parkNanos(this, events.untilNext(MAX_WAIT_NANOS));
    }
  }

  /** One turn: what is due, then frames, waiting for them for at most the given time. */
  void turn(long maxWaitNanos) {
    events.runDue();
    channel.poll(events.untilNext(maxWaitNanos), this);
    events.runDue();
  }

  private void failAll(String reason) {
    if (producer != null) {
      events.run(() -> producer.close(reason));
    }
    if (consumer != null) {
      events.run(() -> consumer.close(reason));
    }
  }

  @Override
  public void onRequest(PeerIdentity from, byte[] payload) {
    if (producer != null) {
      events.run(() -> producer.onRequest(from, payload));
    }
  }

  @Override
  public void onMalformedRequest(PeerIdentity from, int frames) {
    if (producer != null) {
      events.run(() -> producer.onMalformed(from, frames));
    }
  }

  @Override
  public void onRequesterGone(PeerIdentity peer) {
    if (producer != null) {
      events.run(() -> producer.onRequesterGone(peer));
    }
  }

  @Override
  public void onReply(ChannelConnection connection, byte[] payload) {
    if (consumer != null) {
      events.run(() -> consumer.onReply(connection, payload));
    }
  }

  @Override
  public void onClosed(ChannelConnection connection, String reason) {
    if (consumer != null) {
      events.run(() -> consumer.onClosed(connection, reason, connection.wasConnected()));
    }
  }

  @Override
  public void onFailed(Throwable cause) {
    throw new IllegalStateException("the side channel has failed", cause);
  }

  boolean isHealthy() {
    Thread driver = thread;
    return !dead && !stopping && driver != null && driver.isAlive();
  }

  /** Whether this is the loop's own thread, in a callback. */
  boolean isOwnThread() {
    return Thread.currentThread().equals(thread);
  }

  /** Whether the thread has died of an error. */
  boolean isDead() {
    return dead;
  }

  /**
   * Runs something on the loop and waits for it; at once if this is the loop's own thread, in a
   * hook.
   *
   * @throws KvConnectorException if the loop does not come to it in time, or has ended
   */
  <T extends @Nullable Object> T call(String what, long waitNanos, Supplier<T> action) {
    if (isOwnThread()) {
      return action.get();
    }
    Thread driver = thread;
    if (driver == null || !driver.isAlive()) {
      throw new KvConnectorException("cannot " + what + ": the worker loop has ended");
    }
    CompletableFuture<T> result = new CompletableFuture<>();
    events.post(
        () -> {
          try {
            result.complete(action.get());
          } catch (RuntimeException | Error e) {
            result.completeExceptionally(e);
          }
        });
    try {
      return result.get(waitNanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new KvConnectorException("interrupted while waiting to " + what, e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw new KvConnectorException("failed to " + what, e.getCause());
    } catch (TimeoutException e) {
      throw new KvConnectorException(
          "timed out waiting to " + what + ": the worker loop is stuck or dead", e);
    }
  }

  /**
   * Lets the last answers leave, then ends the thread and closes the channel; returns whether it
   * ended in time. On the loop's own thread both happen when the present event is over.
   */
  boolean stop(long waitNanos) {
    if (isOwnThread()) {
      closesChannel = true;
      stopping = true;
      return true;
    }
    stopping = true;
    channel.wakeup();
    Thread driver = thread;
    LockSupport.unpark(driver);
    boolean ended = true;
    if (driver != null) {
      try {
        driver.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(waitNanos)));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      ended = !driver.isAlive();
    }
    channel.close();
    return ended;
  }
}
