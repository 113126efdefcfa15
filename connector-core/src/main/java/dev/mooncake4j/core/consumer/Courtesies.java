package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Releases told to prefillers so that they need not keep blocks or finish waiting: nothing here
 * depends on the answer. Owned by the worker loop.
 */
final class Courtesies {
  private static final Logger LOG = LoggerFactory.getLogger(Courtesies.class);

  /** An answer is not waited for longer. */
  private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final EventLoop loop;
  private final PrefillerConnections connections;

  Courtesies(EventLoop loop, PrefillerConnections connections) {
    this.loop = loop;
    this.connections = connections;
  }

  /** Tells a prefiller rank that these transfers are let go. */
  void release(String address, List<String> transferIds) {
    if (!PrefillerConnections.isUsable(address)) {
      return;
    }
    Courtesy courtesy = new Courtesy();
    try {
      ChannelConnection connection =
          connections.ask(address, WireCodec.encode(new ReleaseRequest(transferIds)), courtesy);
      courtesy.deadline = loop.schedule(PATIENCE_NANOS, () -> connections.abandon(connection));
    } catch (KvConnectorException e) {
      LOG.debug("transfer_ids={} are not released at addr={}", transferIds, address, e);
    }
  }

  private static final class Courtesy implements Exchange {
    private @Nullable Deadline deadline;

    @Override
    public boolean onReply(byte[] payload) {
      end();
      return true;
    }

    @Override
    public void onClosed(String reason, boolean wasConnected) {
      end();
    }

    private void end() {
      if (deadline != null) {
        deadline.cancel();
      }
    }
  }
}
