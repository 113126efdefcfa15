package dev.mooncake4j.core.channel;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.connector.spi.NanoClock;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The side channel on ZMTP: a ROUTER to answer on, and a DEALER for each prefiller, with one frame
 * each way, no identity and the NULL mechanism, as vLLM has it, or PLAIN with a shared secret.
 *
 * <p>There is no thread but the owner's: {@link #poll} waits in a selector, reads and writes the
 * sockets, keeps the heartbeats, and delivers. What arrived goes into a queue first, so that a
 * callback that throws loses nothing. A fault of a connection, whatever it is, ends that connection
 * and no other.
 *
 * <p>The lock is there for {@link #close} alone, which may come from another thread, and may find
 * the owner gone. Longer than most classes: what guards the one lock is best read in one place.
 */
public final class ZmtpSideChannel implements SideChannel {
  private static final Logger log = LoggerFactory.getLogger(ZmtpSideChannel.class);

  private static final int BUFFER_BYTES = 65_536;

  /** Half of what {@link #close} may take. */
  private static final Duration CLOSE_PATIENCE = Duration.ofSeconds(1);

  /** Between two lines on requesters that are not let in. */
  private static final Duration REFUSAL_PAUSE = Duration.ofMinutes(1);

  private final ZmtpSettings settings;
  private final NanoClock clock;
  private final Selector selector;

  private final ReentrantLock lock = new ReentrantLock();
  private final AtomicBoolean closing = new AtomicBoolean();
  private final AtomicBoolean wakeupPending = new AtomicBoolean();
  private final AtomicLong droppedReplies = new AtomicLong();

  /** What lookups of names have found; done by the owner. */
  private final Queue<Runnable> posted = new ConcurrentLinkedQueue<>();

  // Below: guarded by the lock.
  private final Set<ZmtpConnection> connections = new LinkedHashSet<>();
  private final Map<PeerIdentity, ZmtpConnection> peers = new HashMap<>();
  private final Map<PeerIdentity, InetAddress> hostOfPeer = new HashMap<>();
  private final Map<InetAddress, Integer> peersOfHost = new HashMap<>();
  private final Queue<Delivery> deliveries = new ArrayDeque<>();
  private final ByteBuffer scratch = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private final ByteBuffer staging = ByteBuffer.allocateDirect(BUFFER_BYTES);
  private @Nullable ZmtpListener listener;
  private long peersAccepted;

  /** When to look at the connections' times again, on the clock. */
  private long nextTimeCheck;

  private long refusedPeers;
  private long refusalsLogged;
  private long refusalTold;
  private boolean interruptTold;
  private boolean failed;
  private boolean tornDown;

  /** Something to be delivered: of a connection, or of the channel as a whole. */
  private record Delivery(@Nullable ZmtpConnection of, Consumer<Events> how) {}

  /** A channel with the usual times and bounds. */
  public ZmtpSideChannel() {
    this(null);
  }

  /** A channel with the usual times and bounds whose peers must all have this secret, if any. */
  public ZmtpSideChannel(@Nullable SharedSecret secret) {
    this(ZmtpSettings.DEFAULT.withSecret(secret), NanoClock.SYSTEM);
  }

  ZmtpSideChannel(ZmtpSettings settings, NanoClock clock) {
    this.settings = settings;
    this.clock = clock;
    nextTimeCheck = clock.nanoTime();
    try {
      selector = Selector.open();
    } catch (IOException e) {
      throw new KvConnectorException("cannot open a selector for the side channel", e);
    }
  }

  ZmtpSettings settings() {
    return settings;
  }

  /** Scratch space of the owner's for writing. */
  ByteBuffer staging() {
    return staging;
  }

  // ---- the owner's calls

  @Override
  public int bind(String host) {
    lock.lock();
    try {
      requireOpen();
      if (listener != null) {
        throw new IllegalStateException("the side channel is bound already");
      }
      listener = ZmtpListener.open(this, host, selector, clock);
      return listener.port();
    } catch (IOException e) {
      throw new KvConnectorException(
          "cannot bind the side channel, host=" + host + ": give an address of this host", e);
    } finally {
      lock.unlock();
    }
  }

  @Override
  public ChannelConnection connect(String host, int port) {
    lock.lock();
    try {
      requireOpen();
      String bare = HostAddresses.bare(host);
      ZmtpConnection connection =
          new ZmtpConnection(
              this,
              Zmtp.Role.DEALER,
              "tcp://" + HostAddresses.join(bare, port),
              new PeerIdentity(0, bare),
              handshakeDeadline());
      if (connections.size() - peers.size() >= settings.maxConnections()) {
        end(
            connection,
            new IOException("too many connections, limit=" + settings.maxConnections()));
        return connection;
      }
      connections.add(connection);
      HostLookup.find(
          bare,
          address -> open(connection, address, port),
          failure -> end(connection, failure),
          this::post);
      return connection;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void reply(PeerIdentity to, byte[] payload) {
    lock.lock();
    try {
      ZmtpConnection peer = peers.get(to);
      if (peer == null || !send(peer, payload)) {
        droppedReplies.incrementAndGet();
      }
    } finally {
      lock.unlock();
    }
  }

  @Override
  public long droppedReplies() {
    return droppedReplies.get();
  }

  @Override
  public int poll(long timeoutNanos, Events events) {
    if (closing.get()) {
      return -1; // does not compete with close() for the lock
    }
    lock.lock();
    try {
      if (tornDown || (failed && deliveries.isEmpty())) {
        return -1;
      }
      if (!failed) {
        select(deliveries.isEmpty() && posted.isEmpty() ? timeoutNanos : 0);
        runPosted();
        checkTimes();
      }
      int delivered = deliver(events);
      return tornDown || failed ? -1 : delivered;
    } finally {
      if (closing.get() && lock.getHoldCount() == 1) {
        tearDown();
      }
      lock.unlock();
    }
  }

  // ---- the connections' calls

  boolean send(ZmtpConnection connection, byte[] payload) {
    lock.lock();
    try {
      return connection.offer(payload);
    } catch (IOException e) {
      end(connection, e);
      return false;
    } finally {
      lock.unlock();
    }
  }

  /** Closes a connection at the owner's wish. */
  void discard(ZmtpConnection connection) {
    lock.lock();
    try {
      connection.markDiscarded();
      if (!connection.isEnded()) {
        end(connection, new IOException("closed"));
      }
    } finally {
      lock.unlock();
    }
  }

  void arrived(ZmtpConnection connection, byte[] payload) {
    deliver(
        connection,
        connection.isMadeByUs()
            ? events -> events.onReply(connection, payload)
            : events -> events.onRequest(connection.identity(), payload));
  }

  void arrivedInPieces(ZmtpConnection connection, int frames) {
    deliver(connection, events -> events.onMalformedRequest(connection.identity(), frames));
  }

  private void deliver(@Nullable ZmtpConnection of, Consumer<Events> how) {
    deliveries.add(new Delivery(of, how));
  }

  // ---- any thread

  @Override
  public void wakeup() {
    // A selector's own wake-up and not a pipe: a write by an interrupted thread closes a pipe.
    if (!wakeupPending.get() && wakeupPending.compareAndSet(false, true)) {
      selector.wakeup();
    }
  }

  @Override
  public void close() {
    closing.set(true);
    selector.wakeup();
    if (!tryLock()) {
      // The owner is in a callback; it closes the sockets when it returns.
      log.warn("side channel: closed while its owner is busy, the sockets follow");
      return;
    }
    try {
      tearDown();
    } finally {
      lock.unlock();
    }
  }

  private boolean tryLock() {
    boolean interrupted = false;
    long deadline = System.nanoTime() + CLOSE_PATIENCE.toNanos();
    try {
      while (true) {
        try {
          return lock.tryLock(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private void tearDown() {
    if (tornDown) {
      return;
    }
    tornDown = true;
    IOException closed = new IOException("the side channel is closed");
    for (ZmtpConnection connection : List.copyOf(connections)) {
      end(connection, closed);
    }
    posted.clear();
    deliveries.clear();
    try {
      if (listener != null) {
        listener.close();
      }
      selector.close();
    } catch (IOException e) {
      log.warn("side channel: could not close its sockets", e);
    }
  }

  private void requireOpen() {
    if (tornDown || failed || closing.get()) {
      throw new IllegalStateException("the side channel is closed");
    }
  }

  // ---- connections

  private long handshakeDeadline() {
    long deadline = clock.nanoTime() + settings.connectTimeout().toNanos();
    lookAtTimesBy(deadline);
    return deadline;
  }

  private void open(ZmtpConnection connection, InetAddress address, int port) {
    if (connection.isEnded()) {
      return;
    }
    try {
      connection.connect(new InetSocketAddress(address, port), selector);
    } catch (IOException | IllegalArgumentException e) {
      end(connection, e);
    }
  }

  private void post(Runnable task) {
    posted.add(task);
    wakeup();
  }

  /** Takes a requester in, if there is room. */
  boolean welcome(SocketChannel socket) throws IOException {
    InetAddress host = ((InetSocketAddress) socket.getRemoteAddress()).getAddress();
    if (peers.size() >= settings.maxPeers()
        || peersOfHost.getOrDefault(host, 0) >= settings.maxPeersOfHost()) {
      return false;
    }
    PeerIdentity identity = new PeerIdentity(++peersAccepted, host.getHostAddress());
    ZmtpConnection peer =
        new ZmtpConnection(
            this,
            Zmtp.Role.ROUTER,
            String.valueOf(socket.getRemoteAddress()),
            identity,
            handshakeDeadline());
    connections.add(peer);
    peers.put(identity, peer);
    hostOfPeer.put(identity, host);
    peersOfHost.merge(host, 1, Integer::sum);
    try {
      peer.accept(socket, selector);
    } catch (IOException e) {
      end(peer, e);
    }
    return true;
  }

  /** Ends a connection; that is told after what had arrived on it. */
  private void end(ZmtpConnection connection, Exception cause) {
    if (connection.isEnded()) {
      return;
    }
    String reason = connection.end(cause);
    connections.remove(connection);
    peers.remove(connection.identity());
    InetAddress host = hostOfPeer.remove(connection.identity());
    if (host != null) {
      peersOfHost.computeIfPresent(host, (h, n) -> n == 1 ? null : n - 1);
    }
    if (connection.isMadeByUs() && !connection.isDiscarded()) {
      deliver(connection, events -> events.onClosed(connection, reason));
      return;
    }
    if (cause instanceof ZmtpException told && told.toldPeer() != null) {
      tellRefused(connection, reason);
    } else {
      log.debug("side channel: {}: {}", connection, reason);
    }
    if (!connection.isMadeByUs()) {
      deliver(connection, events -> events.onRequesterGone(connection.identity()));
    }
  }

  /** One in a while: whoever keeps trying must not fill the log. */
  private void tellRefused(ZmtpConnection connection, String reason) {
    long now = clock.nanoTime();
    refusedPeers++;
    if (refusalsLogged == 0 || now - refusalTold >= REFUSAL_PAUSE.toNanos()) {
      refusalsLogged++;
      refusalTold = now;
      log.warn("side channel: {}: {}; refused_so_far={}", connection, reason, refusedPeers);
    } else {
      log.debug("side channel: {}: {}", connection, reason);
    }
  }

  /** Requesters that were not let in, for tests. */
  long refusedPeers() {
    return refusedPeers;
  }

  /** Lines on them in the log, for tests. */
  long refusalsLogged() {
    return refusalsLogged;
  }

  // ---- poll

  private void select(long timeoutNanos) {
    // An interrupt would make every select return at once: whoever wants this thread to end closes
    // the channel.
    if (Thread.interrupted() && !interruptTold) {
      interruptTold = true;
      log.warn("side channel: interrupt ignored, close the channel to end its poll");
    }
    long nanos = timeoutNanos;
    if (nanos > 0 && (listener != null || !connections.isEmpty())) {
      nanos = Math.min(nanos, nextTimeCheck - clock.nanoTime());
    }
    try {
      if (nanos <= 0) {
        selector.selectNow(this::serve);
      } else {
        selector.select(this::serve, (nanos + 999_999) / 1_000_000);
      }
    } catch (IOException e) {
      fail(e);
    }
    wakeupPending.set(false);
  }

  private void serve(SelectionKey key) {
    if (key.attachment() instanceof ZmtpListener acceptor) {
      acceptor.accept();
    } else if (key.attachment() instanceof ZmtpConnection connection) {
      try {
        connection.serve(key.readyOps(), scratch, clock.nanoTime());
      } catch (IOException | ZmtpException e) {
        end(connection, e);
      } catch (RuntimeException e) {
        log.error("side channel: a fault of ours, {} is closed", connection, e);
        end(connection, e);
      }
    }
  }

  private void runPosted() {
    Runnable task;
    while ((task = posted.poll()) != null) {
      task.run();
    }
  }

  /** Has the connections' times looked at by then. */
  void lookAtTimesBy(long moment) {
    if (moment - nextTimeCheck < 0) {
      nextTimeCheck = moment;
    }
  }

  /** After the sockets were read: a pause of this process must not look like one of the peer's. */
  private void checkTimes() {
    long now = clock.nanoTime();
    if (now - nextTimeCheck < 0) {
      return;
    }
    long next = settings.heartbeatInterval().toNanos();
    if (listener != null) {
      next = Math.min(next, listener.checkTime(now));
    }
    for (ZmtpConnection connection : new ArrayList<>(connections)) {
      try {
        next = Math.min(next, connection.checkTime(now));
      } catch (IOException | ZmtpException e) {
        end(connection, e);
      }
    }
    nextTimeCheck = now + next;
  }

  private int deliver(Events events) {
    int delivered = 0;
    // As many as there are: what a callback causes is for the next poll.
    for (int left = deliveries.size(); left > 0 && !tornDown; left--) {
      Delivery next = deliveries.remove();
      if (next.of() == null || !next.of().isDiscarded()) {
        delivered++;
        next.how().accept(events);
      }
    }
    return delivered;
  }

  private void fail(IOException cause) {
    log.error("side channel: failed, no more messages are sent or received", cause);
    failed = true;
    IOException reason = new IOException("the side channel failed: " + cause.getMessage(), cause);
    for (ZmtpConnection connection : List.copyOf(connections)) {
      end(connection, reason);
    }
    deliver(null, events -> events.onFailed(cause));
  }
}
