package dev.mooncake4j.core.channel;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.KvConnectorException;
import java.nio.channels.SelectableChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.zeromq.SocketType;
import org.zeromq.UncheckedZMQException;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/**
 * The side channel over ZeroMQ: a ROUTER that answers, a DEALER per connection that asks; one frame
 * each way, no delimiter, no identity, NULL mechanism.
 *
 * <p>A DEALER would reconnect in silence and queue for ever. Here a connection that fails or ends
 * is finished and told: by its TCP end when the peer's process dies, by missed heartbeats (which
 * any ZMTP 3.1 peer answers by itself) when the peer is stopped or the network swallows everything.
 */
public final class ZmqSideChannel implements SideChannel {
  private static final Logger LOG = LoggerFactory.getLogger(ZmqSideChannel.class);

  /** Frames taken from one socket before the others get their turn. */
  private static final int BURST = 256;

  /** Questions queued on one connection: it has one at a time, so few are ever there. */
  private static final int DEALER_HIGH_WATER = 64;

  /** Frames queued for or from one peer of the answering socket; beyond it answers are dropped. */
  private static final int ROUTER_HIGH_WATER = 4096;

  /** The largest message that is taken; a larger one ends its connection. */
  private static final long MAX_MESSAGE_BYTES = 64L << 20;

  /**
   * How long the last answers may take to leave when this closes: a decoder that waits is told in
   * time also where the machine is busy, and one that takes no bytes holds nobody up for long.
   */
  private static final int ANSWER_LINGER_MILLIS = 500;

  private static final int HEARTBEAT_MILLIS = 2_000;
  private static final int HEARTBEAT_TIMEOUT_MILLIS = 6_000;

  private static final AtomicInteger NUMBER = new AtomicInteger();

  private final ZContext context;
  private final WakeupPipe wakeup = new WakeupPipe();
  private final ZMQ.Poller poller;
  private final Map<ZMQ.Socket, Connection> connections = new HashMap<>();
  private final ConcurrentLinkedQueue<Ended> ended = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean closed = new AtomicBoolean();
  private ZMQ.@Nullable Socket router;
  private long droppedReplies;

  private record Ended(Connection connection, String reason) {}

  /** A channel with nothing bound and nothing connected. */
  public ZmqSideChannel() {
    int number = NUMBER.incrementAndGet();
    context = new ZContext(1);
    context.setLinger(0);
    context.setThreadFactor(
        (runnable, name) ->
            Thread.ofPlatform()
                .name("m4j-zmq-" + number + "-" + name)
                .daemon()
                .unstarted(runnable));
    poller = context.createPoller(8);
    poller.register((SelectableChannel) wakeup.source(), ZMQ.Poller.POLLIN);
  }

  @Override
  public int bind(String host) {
    if (router != null) {
      throw new IllegalStateException("the side channel is bound already");
    }
    ZMQ.Socket socket = context.createSocket(SocketType.ROUTER);
    socket.setLinger(0);
    socket.setRcvHWM(ROUTER_HIGH_WATER);
    socket.setSndHWM(ROUTER_HIGH_WATER);
    socket.setMaxMsgSize(MAX_MESSAGE_BYTES);
    socket.setHeartbeatIvl(HEARTBEAT_MILLIS);
    socket.setHeartbeatTimeout(HEARTBEAT_TIMEOUT_MILLIS);
    socket.setIPv6(HostAddresses.bare(host).indexOf(':') >= 0);
    String where = "tcp://" + HostAddresses.join(host, 0);
    try {
      if (!socket.bind(where.substring(0, where.length() - 1) + "*")) {
        throw new KvConnectorException(
            "the side channel cannot be bound at host=" + host + ", errno=" + socket.errno());
      }
    } catch (UncheckedZMQException | IllegalArgumentException e) {
      socket.close();
      throw new KvConnectorException(
          "the side channel cannot be bound at host="
              + host
              + ": give an address of this machine as the connector's host",
          e);
    }
    router = socket;
    poller.register(socket, ZMQ.Poller.POLLIN);
    return HostAddresses.portOf(socket.getLastEndpoint().substring("tcp://".length()));
  }

  @Override
  public ChannelConnection connect(String host, int port) {
    ZMQ.Socket socket = context.createSocket(SocketType.DEALER);
    socket.setLinger(0);
    socket.setSndHWM(DEALER_HIGH_WATER);
    socket.setRcvHWM(DEALER_HIGH_WATER);
    socket.setMaxMsgSize(MAX_MESSAGE_BYTES);
    socket.setReconnectIVL(-1);
    socket.setHeartbeatIvl(HEARTBEAT_MILLIS);
    socket.setHeartbeatTimeout(HEARTBEAT_TIMEOUT_MILLIS);
    socket.setHandshakeIvl(HEARTBEAT_TIMEOUT_MILLIS);
    socket.setIPv6(HostAddresses.bare(host).indexOf(':') >= 0);
    Connection connection = new Connection(socket, "tcp://" + HostAddresses.join(host, port));
    connections.put(socket, connection);
    socket.setEventHook(connection::onEvent, ZMQ.EVENT_ALL);
    poller.register(socket, ZMQ.Poller.POLLIN);
    try {
      socket.connect(connection.address());
    } catch (UncheckedZMQException | IllegalArgumentException e) {
      connection.end("cannot connect: " + e.getMessage());
    }
    return connection;
  }

  @Override
  public void reply(PeerIdentity to, byte[] payload) {
    ZMQ.Socket socket = router;
    if (socket == null) {
      return;
    }
    // A ROUTER drops what it cannot route, both frames; between them it never refuses.
    if (!socket.send(to.bytes(), ZMQ.SNDMORE | ZMQ.DONTWAIT)
        || !socket.send(payload, ZMQ.DONTWAIT)) {
      droppedReplies++;
      LOG.debug("an answer was dropped, dropped={}", droppedReplies);
    }
  }

  @Override
  public void poll(long timeoutNanos, Events events) {
    if (closed.get()) {
      return;
    }
    // Rounded up, so that a deadline is due when the wait for it is over.
    long millis = timeoutNanos <= 0 ? 0 : (timeoutNanos + 999_999) / 1_000_000;
    poller.poll(ended.isEmpty() ? millis : 0);
    wakeup.lower();
    readRouter(events);
    readConnections(events);
    tellEnded(events);
  }

  private void readRouter(Events events) {
    ZMQ.Socket socket = router;
    if (socket == null) {
      return;
    }
    for (int i = 0; i < BURST; i++) {
      byte[] identity = socket.recv(ZMQ.DONTWAIT);
      if (identity == null) {
        return;
      }
      byte[] payload = null;
      int frames = 0;
      while (socket.hasReceiveMore()) {
        byte[] frame = socket.recv(ZMQ.DONTWAIT);
        payload = frames == 0 ? frame : payload;
        frames++;
      }
      PeerIdentity from = new PeerIdentity(identity);
      if (frames == 1 && payload != null) {
        events.onRequest(from, payload);
      } else {
        events.onMalformedRequest(from, frames);
      }
    }
    wakeup.raise();
  }

  private void readConnections(Events events) {
    for (Connection connection : List.copyOf(connections.values())) {
      connection.read(events);
    }
  }

  private void tellEnded(Events events) {
    for (Ended next = ended.poll(); next != null; next = ended.poll()) {
      Connection connection = next.connection();
      if (connection.isOpen()) {
        // What came before the end counts.
        connection.read(events);
      }
      if (connection.isOpen()) {
        connection.close();
        events.onClosed(connection, next.reason());
      }
    }
  }

  @Override
  public void wakeup() {
    wakeup.raise();
  }

  /** Answers that could not be queued. */
  long droppedReplies() {
    return droppedReplies;
  }

  @Override
  public void close() {
    if (!closed.compareAndSet(false, true)) {
      return;
    }
    for (Connection connection : new ArrayList<>(connections.values())) {
      connection.close();
    }
    poller.close();
    if (router != null) {
      router.setLinger(ANSWER_LINGER_MILLIS);
      router.close();
    }
    context.close();
    wakeup.close();
  }

  private final class Connection implements ChannelConnection {
    private final ZMQ.Socket socket;
    private final String address;
    private volatile boolean connected;
    private boolean open = true;

    Connection(ZMQ.Socket socket, String address) {
      this.socket = socket;
      this.address = address;
    }

    /** Called on the library's own thread. */
    void onEvent(org.zeromq.ZEvent event) {
      switch (event.getEvent()) {
        case CONNECTED -> connected = true;
        case DISCONNECTED -> end("the peer has closed it or is silent");
        case CLOSED, CONNECT_RETRIED -> {
          if (!connected) {
            end("nothing answers at " + address);
          }
        }
        case HANDSHAKE_FAILED_PROTOCOL, HANDSHAKE_FAILED_NO_DETAIL, HANDSHAKE_FAILED_AUTH ->
            end("the peer does not speak ZMTP: " + event.getEvent());
        default -> {}
      }
    }

    void end(String reason) {
      ended.add(new Ended(this, reason));
      wakeup.raise();
    }

    boolean isOpen() {
      return open;
    }

    void read(Events events) {
      for (int i = 0; i < BURST && open; i++) {
        byte[] payload = socket.recv(ZMQ.DONTWAIT);
        if (payload == null) {
          return;
        }
        boolean more = socket.hasReceiveMore();
        while (socket.hasReceiveMore()) {
          socket.recv(ZMQ.DONTWAIT);
        }
        if (more) {
          end("the peer has answered with more than one frame");
          return;
        }
        events.onReply(this, payload);
      }
    }

    @Override
    public String address() {
      return address;
    }

    @Override
    public boolean wasConnected() {
      return connected;
    }

    @Override
    public boolean send(byte[] payload) {
      return open && socket.send(payload, ZMQ.DONTWAIT);
    }

    @Override
    public void close() {
      if (open) {
        open = false;
        connections.remove(socket);
        poller.unregister(socket);
        socket.close();
      }
    }
  }
}
