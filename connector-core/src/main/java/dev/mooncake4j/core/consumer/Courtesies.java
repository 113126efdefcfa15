package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Releases and renewals told to prefillers: nothing waits for them, and if one fails, time does the
 * rest. Owned by the worker loop.
 */
final class Courtesies {
  private static final Logger LOG = LoggerFactory.getLogger(Courtesies.class);

  /** An answer is not waited for longer. */
  private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final EventLoop loop;
  private final PrefillerConnections connections;

  /** Ranks whose last renewal is not answered: a silent one is not told again and again. */
  private final Set<String> renewing = new HashSet<>();

  private final Set<Courtesy> open = new LinkedHashSet<>();

  Courtesies(EventLoop loop, PrefillerConnections connections) {
    this.loop = loop;
    this.connections = connections;
  }

  /** Tells a prefiller rank that these transfers are let go. */
  void release(String address, List<String> transferIds) {
    tell(address, WireCodec.encode(new ReleaseRequest(transferIds)), (a, response) -> {});
  }

  /** Sends a renewal, unless the last one to this rank is still unanswered. */
  void renew(String address, byte[] message, LeaseRenewer.Answers answers) {
    if (renewing.add(address)) {
      tell(address, message, answers, () -> renewing.remove(address));
    }
  }

  /** Their connections are about to be closed: no answer is waited for. */
  void close() {
    List.copyOf(open).forEach(Courtesy::end);
  }

  /** Messages that are not answered yet. */
  int open() {
    return open.size();
  }

  private void tell(String address, byte[] message, LeaseRenewer.Answers answers) {
    tell(address, message, answers, () -> {});
  }

  /** Sends a message to a prefiller rank; what it answers, if it does, goes to {@code answers}. */
  private void tell(String address, byte[] message, LeaseRenewer.Answers answers, Runnable over) {
    Courtesy courtesy = new Courtesy(address, answers, over);
    open.add(courtesy);
    if (!PrefillerConnections.isUsable(address)) {
      courtesy.end();
      return;
    }
    try {
      ChannelConnection connection = connections.ask(address, message, courtesy);
      courtesy.deadline =
          loop.schedule(
              PATIENCE_NANOS,
              () -> {
                courtesy.end();
                connections.abandon(connection);
              });
    } catch (KvConnectorException e) {
      LOG.debug("addr={} is not told", address, e);
      courtesy.end();
    }
  }

  private final class Courtesy implements Exchange {
    private final String address;
    private final LeaseRenewer.Answers answers;
    private final Runnable over;
    private @Nullable Deadline deadline;

    Courtesy(String address, LeaseRenewer.Answers answers, Runnable over) {
      this.address = address;
      this.answers = answers;
      this.over = over;
    }

    @Override
    public boolean onReply(byte[] payload) {
      end();
      try {
        answers.answered(address, WireCodec.decodeResponse(payload));
      } catch (MalformedMessageException e) {
        LOG.debug("addr={} has answered a courtesy with nonsense", address, e);
      }
      return true;
    }

    @Override
    public void onClosed(String reason, boolean wasConnected) {
      end();
    }

    private void end() {
      if (!open.remove(this)) {
        return;
      }
      over.run();
      if (deadline != null) {
        deadline.cancel();
      }
    }
  }
}
