package dev.mooncake4j.core.worker;

import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.consumer.Consumer;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.producer.Producer;
import dev.mooncake4j.core.wire.WireLayout;
import org.jspecify.annotations.Nullable;

/** A worker's loop in a test's hand: the same turns as in production, on the calling thread. */
public final class LoopDriver {
  private final WorkerLoop loop;

  /** Drives these. */
  public LoopDriver(
      EventLoop events,
      SideChannel channel,
      @Nullable Producer producer,
      @Nullable Consumer consumer) {
    loop = new WorkerLoop(events, channel, producer, consumer);
  }

  /** One turn, without waiting. */
  public void turn() {
    loop.turn(0);
  }

  /** A cache as a decoder tells it. */
  public static WireLayout wire(LocalCache cache) {
    return LocalCaches.wire(cache);
  }
}
