package dev.mooncake4j.core.worker;

import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** A channel that reaches nobody, and whose poll dies of an error when it is told to. */
final class DyingChannel implements SideChannel {
  private final AtomicBoolean dies;
  private final CompletableFuture<Void> closed;
  private final Semaphore wakeups = new Semaphore(0);

  DyingChannel(AtomicBoolean dies, CompletableFuture<Void> closed) {
    this.dies = dies;
    this.closed = closed;
  }

  @Override
  public int bind(String host) {
    return 1;
  }

  @Override
  public ChannelConnection connect(String host, int port) {
    throw new IllegalStateException("nobody is there");
  }

  @Override
  public void reply(PeerIdentity to, byte[] payload) {}

  @Override
  public int poll(long timeoutNanos, Events events) {
    try {
      if (wakeups.tryAcquire(timeoutNanos, TimeUnit.NANOSECONDS)) {
        wakeups.drainPermits();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (dies.get()) {
      throw new AssertionError("made to die");
    }
    return 0;
  }

  @Override
  public long droppedReplies() {
    return 0;
  }

  @Override
  public void wakeup() {
    wakeups.release();
  }

  @Override
  public void close() {
    closed.complete(null);
  }
}
