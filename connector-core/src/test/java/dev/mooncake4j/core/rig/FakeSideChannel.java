package dev.mooncake4j.core.rig;

import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One end of a {@link FakeNetwork}; a poll never waits and delivers what is there. */
public final class FakeSideChannel implements SideChannel {
  private final FakeNetwork network;
  private final List<FakeConnection> connections = new ArrayList<>();
  private @Nullable RuntimeException connectFailure;
  private String host = "10.0.0.1";
  private boolean closed;

  FakeSideChannel(FakeNetwork network) {
    this.network = network;
  }

  @Override
  public int bind(String host) {
    return network.bind(host, this);
  }

  @Override
  public ChannelConnection connect(String host, int port) {
    RuntimeException failure = connectFailure;
    if (failure != null) {
      throw failure;
    }
    FakeConnection connection = network.connect(this, host, port);
    connections.add(connection);
    return connection;
  }

  /** From now on no connection can be made at all, as when no sockets are left. */
  public void failConnects(@Nullable RuntimeException failure) {
    connectFailure = failure;
  }

  /** Where connections made from now on come from. */
  void comesFrom(String address) {
    host = address;
  }

  String host() {
    return host;
  }

  void forget(FakeConnection connection) {
    connections.remove(connection);
  }

  @Override
  public void reply(PeerIdentity to, byte[] payload) {
    if (!closed) {
      network.reply(to, payload);
    }
  }

  @Override
  public int poll(long timeoutNanos, Events events) {
    if (closed) {
      return -1;
    }
    while (network.deliverNext(this, events)) {
      // One after another, as they were sent.
    }
    for (FakeConnection connection : List.copyOf(connections)) {
      connection.poll(events);
    }
    return 0;
  }

  @Override
  public long droppedReplies() {
    return network.droppedReplies();
  }

  @Override
  public void wakeup() {}

  @Override
  public void close() {
    closed = true;
    for (FakeConnection connection : List.copyOf(connections)) {
      connection.close();
    }
    network.unbind(this);
  }
}
