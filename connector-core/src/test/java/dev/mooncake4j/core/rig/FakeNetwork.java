package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Side channels of one process, found by {@code host:port}.
 *
 * <p>Nothing moves by itself: a frame waits until the channel it is for is polled, and the test may
 * hold it, drop it or cut its connection before. Frames of one connection and direction stay in
 * order; requests of different connections arrive in the order in which they were sent.
 */
public final class FakeNetwork {
  private static final int FIRST_PORT = 20_000;

  private final Map<String, FakeSideChannel> bound = new HashMap<>();
  private final Map<PeerIdentity, FakeConnection> byIdentity = new HashMap<>();
  private final List<FakeConnection> open = new ArrayList<>();
  private final Set<String> stalled = new HashSet<>();
  private final Deque<Request> requests = new ArrayDeque<>();

  /** Connections that have ended, whose answering end has not been told. */
  private final Set<FakeConnection> ended = new LinkedHashSet<>();

  private int nextPort = FIRST_PORT;
  private long lastIdentity;
  private int droppedReplies;

  private static final class Request {
    final FakeConnection connection;
    final byte[] payload;

    Request(FakeConnection connection, byte[] payload) {
      this.connection = connection;
      this.payload = payload;
    }
  }

  /** A network with nothing on it. */
  public FakeNetwork() {}

  /** A channel with nothing bound and nothing connected. */
  public FakeSideChannel channel() {
    return new FakeSideChannel(this);
  }

  /** Connections that are open at their asking end, the oldest first. */
  public List<FakeConnection> connections() {
    return List.copyOf(open);
  }

  /** Those of them that lead to {@code tcp://host:port}. */
  public List<FakeConnection> connectionsTo(String address) {
    return open.stream().filter(c -> c.address().equals(address)).toList();
  }

  /** The one connection that is open; fails if there is none or there are several. */
  public FakeConnection onlyConnection() {
    if (open.size() != 1) {
      throw new AssertionError("connections=" + open.size() + ", not 1");
    }
    return open.getFirst();
  }

  /** Connections to this address are neither accepted nor refused, until {@link #unstall}. */
  public void stall(String address) {
    stalled.add(address);
  }

  /** Connections to this address come about again. */
  public void unstall(String address) {
    stalled.remove(address);
  }

  /** Answers that came to nobody. */
  public int droppedReplies() {
    return droppedReplies;
  }

  /** Whether polling every channel would move something. */
  public boolean hasDeliverable() {
    for (FakeConnection connection : open) {
      if (connection.hasNews()) {
        return true;
      }
    }
    return ended.stream().anyMatch(this::isEndDeliverable)
        || requests.stream().anyMatch(r -> isDeliverable(r.connection));
  }

  /** Frames on their way to answering channels, held ones too. */
  public int requestsUnderWay() {
    return requests.size();
  }

  int bind(String host, FakeSideChannel channel) {
    int port = nextPort++;
    bound.put(HostAddresses.join(host, port), channel);
    return port;
  }

  /** A channel that was bound here closes: its port refuses from now on. */
  void unbind(FakeSideChannel channel) {
    bound.values().removeIf(c -> c == channel);
    for (FakeConnection connection : open) {
      if (connection.server() == channel) {
        connection.endTold();
        connection.end("the peer has closed it or is silent");
      }
    }
    requests.removeIf(r -> r.connection.server() == channel);
    ended.removeIf(c -> c.server() == channel);
  }

  FakeConnection connect(FakeSideChannel client, String host, int port) {
    FakeConnection connection =
        new FakeConnection(
            this,
            client,
            "tcp://" + HostAddresses.join(host, port),
            new PeerIdentity(++lastIdentity, client.host()));
    open.add(connection);
    byIdentity.put(connection.identity(), connection);
    return connection;
  }

  /** The channel that a connection reaches now, unless it is stalled or nothing is bound there. */
  @Nullable FakeSideChannel reach(FakeConnection connection) {
    return isStalled(connection) ? null : bound.get(hostAndPort(connection.address()));
  }

  boolean isStalled(FakeConnection connection) {
    return stalled.contains(connection.address());
  }

  void closed(FakeConnection connection) {
    open.remove(connection);
    byIdentity.remove(connection.identity());
    if (connection.wasConnected()) {
      ended(connection);
    } else {
      dropRequests(connection);
    }
  }

  /** The answering end is told, once, after the requests under way. */
  void ended(FakeConnection connection) {
    if (connection.wasConnected() && connection.isEndToBeTold()) {
      ended.add(connection);
    }
  }

  void send(FakeConnection connection, byte[] payload) {
    requests.add(new Request(connection, payload));
  }

  int dropRequests(FakeConnection connection) {
    int before = requests.size();
    requests.removeIf(r -> r.connection == connection);
    return before - requests.size();
  }

  int requestsOf(FakeConnection connection) {
    return (int) requests.stream().filter(r -> r.connection == connection).count();
  }

  void reply(PeerIdentity to, byte[] payload) {
    FakeConnection connection = byIdentity.get(to);
    if (connection == null || !connection.takeReply(payload)) {
      droppedReplies++;
    }
  }

  private boolean isDeliverable(FakeConnection connection) {
    return connection.server() != null && !connection.holdsRequests();
  }

  private boolean isEndDeliverable(FakeConnection connection) {
    return requestsOf(connection) == 0;
  }

  /** Delivers the next event for an answering channel; returns whether there was one. */
  boolean deliverNext(FakeSideChannel server, SideChannel.Events events) {
    for (Request request : requests) {
      FakeConnection connection = request.connection;
      if (connection.server() == server && isDeliverable(connection)) {
        requests.remove(request);
        events.onRequest(connection.identity(), request.payload);
        return true;
      }
    }
    for (FakeConnection connection : ended) {
      if (connection.server() == server && isEndDeliverable(connection)) {
        ended.remove(connection);
        connection.endTold();
        events.onRequesterGone(connection.identity());
        return true;
      }
    }
    return false;
  }

  private static String hostAndPort(String address) {
    return address.substring("tcp://".length());
  }
}
