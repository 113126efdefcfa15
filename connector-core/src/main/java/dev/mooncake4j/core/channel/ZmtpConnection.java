package dev.mooncake4j.core.channel;

import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * One TCP connection, made or accepted: handshake, messages, heartbeats. State of the channel's
 * owner; it reports to the channel, which ends it when a method throws.
 */
final class ZmtpConnection implements ChannelConnection, ZmtpDecoder.Sink {
  /** Reads in one go, each of a full buffer at most, before it is another connection's turn. */
  private static final int READS_PER_TURN = 4;

  /**
   * A requester that brings as many in one turn rests before it is read again. One question at a
   * time is asked on a connection, so that only one out of order is ever slowed by this; and it
   * must not take the owner's time from the others.
   */
  static final int MESSAGES_PER_TURN = 64;

  private static final long REST_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

  /** Read at a time from one that has ever rested, so that few more than those above come. */
  private static final int SMALL_READ = 4096;

  private static final long NEVER = Long.MAX_VALUE;

  private final ZmtpSideChannel channel;
  private final Zmtp.Role role;
  private final String address;

  /** What a requester is answered by; of no use for a connection that we made. */
  private final PeerIdentity identity;

  private final ZmtpHandshake handshake;
  private final ZmtpDecoder decoder;
  private final ZmtpOutQueue out;
  private final long handshakeBy;

  private @Nullable SocketChannel socket;
  private @Nullable SelectionKey key;
  private boolean connected;
  private boolean ready;
  private boolean refused;
  private boolean ended;
  private boolean discarded;

  /** The socket takes no more at the moment. */
  private boolean blocked;

  /** A write failed; what the peer had sent before is still read, and then its end. */
  private boolean broken;

  private int arrivedInTurn;
  private boolean resting;
  private boolean hasRested;
  private long restsUntil;

  private boolean heartbeats;
  private long lastHeard;
  private boolean asked;
  private long askedAt;

  ZmtpConnection(
      ZmtpSideChannel channel,
      Zmtp.Role role,
      String address,
      PeerIdentity identity,
      long handshakeBy) {
    ZmtpSettings settings = channel.settings();
    this.channel = channel;
    this.role = role;
    this.address = address;
    this.identity = identity;
    this.handshakeBy = handshakeBy;
    handshake = new ZmtpHandshake(role, settings.secret());
    decoder = new ZmtpDecoder(settings.maxMessageBytes());
    out = new ZmtpOutQueue(settings.queueMessages(), settings.queueBytes());
  }

  // ---- the owner's calls

  @Override
  public String address() {
    return address;
  }

  @Override
  public boolean wasConnected() {
    return ready;
  }

  @Override
  public boolean wasRefused() {
    return refused;
  }

  @Override
  public boolean send(byte[] payload) {
    return channel.send(this, payload);
  }

  @Override
  public void close() {
    channel.discard(this);
  }

  // ---- the channel's calls

  PeerIdentity identity() {
    return identity;
  }

  boolean isMadeByUs() {
    return role == Zmtp.Role.DEALER;
  }

  boolean isEnded() {
    return ended;
  }

  boolean isDiscarded() {
    return discarded;
  }

  /** Nothing more is delivered, not even its end. */
  void markDiscarded() {
    discarded = true;
  }

  /** Begins to connect. */
  void connect(SocketAddress to, Selector selector) throws IOException {
    SocketChannel opened = SocketChannel.open();
    socket = opened;
    opened.configureBlocking(false);
    opened.setOption(StandardSocketOptions.TCP_NODELAY, true);
    key = opened.register(selector, SelectionKey.OP_CONNECT, this);
    out.control(handshake.greeting());
    if (opened.connect(to)) {
      begin();
    }
  }

  /** Begins to use a socket that was accepted and set up. */
  void accept(SocketChannel accepted, Selector selector) throws IOException {
    socket = accepted;
    key = accepted.register(selector, 0, this);
    out.control(handshake.greeting());
    begin();
  }

  private void begin() throws IOException {
    connected = true;
    flush();
  }

  /** Does what the socket is ready for. */
  void serve(int readyOps, ByteBuffer scratch, long now) throws IOException, ZmtpException {
    SocketChannel from = socket;
    if (from == null || ended) {
      return;
    }
    if ((readyOps & SelectionKey.OP_CONNECT) != 0 && from.finishConnect()) {
      begin();
    }
    if ((readyOps & SelectionKey.OP_WRITE) != 0) {
      askedAt = now; // it takes what has been waiting, so it lives; its answer comes after that
      flush();
    }
    if ((readyOps & SelectionKey.OP_READ) != 0) {
      read(from, scratch, now);
    }
  }

  private void read(SocketChannel from, ByteBuffer scratch, long now)
      throws IOException, ZmtpException {
    arrivedInTurn = 0;
    for (int i = 0; i < READS_PER_TURN && !ended && !isOverdoing(); i++) {
      scratch.clear();
      if (hasRested) {
        scratch.limit(SMALL_READ);
      }
      int room = scratch.remaining();
      int n = from.read(scratch);
      if (n < 0) {
        throw new EOFException("closed by the peer");
      }
      if (n == 0) {
        break;
      }
      lastHeard = now;
      asked = false;
      scratch.flip();
      decoder.decode(scratch, this);
      if (n < room) {
        break;
      }
    }
    resting = isOverdoing();
    if (resting) {
      hasRested = true;
      restsUntil = now + REST_NANOS;
      channel.lookAtTimesBy(restsUntil);
    }
    if (blocked) {
      listen();
    } else {
      flush();
    }
  }

  private boolean isOverdoing() {
    return arrivedInTurn >= MESSAGES_PER_TURN && !isMadeByUs();
  }

  /** What the socket is to wake us for. */
  private void listen() {
    SelectionKey ops = key;
    if (ops != null && !ended) {
      ops.interestOps(
          (resting ? 0 : SelectionKey.OP_READ) | (blocked && !broken ? SelectionKey.OP_WRITE : 0));
    }
  }

  /** Queues a message, and writes it at once if nothing else waits. */
  boolean offer(byte[] payload) throws IOException {
    if (ended || broken || !out.offer(payload)) {
      return false;
    }
    if (ready && !blocked) {
      flush();
    }
    return !broken;
  }

  private void flush() throws IOException {
    SocketChannel to = socket;
    if (to == null || !connected || broken) {
      return;
    }
    try {
      blocked = !out.flush(to, ready, channel.staging());
    } catch (IOException e) {
      broken = true;
      if (!ready) {
        throw e;
      }
    }
    listen();
  }

  /**
   * Does what the clock asks for.
   *
   * @return nanoseconds until it asks again
   */
  long checkTime(long now) throws IOException, ZmtpException {
    ZmtpSettings settings = channel.settings();
    if (!ready) {
      if (now - handshakeBy >= 0) {
        throw new ZmtpException("nothing within " + settings.connectTimeout().toMillis() + " ms");
      }
      return handshakeBy - now;
    }
    if (resting && now - restsUntil >= 0) {
      resting = false;
      listen();
    }
    if (!heartbeats) {
      return resting ? restsUntil - now : NEVER;
    }
    long timeout = settings.heartbeatTimeout().toNanos();
    if (asked) {
      if (now - askedAt >= timeout) {
        throw new ZmtpException("silent for " + settings.heartbeatTimeout().toMillis() + " ms");
      }
      return askedAt + timeout - now;
    }
    long interval = settings.heartbeatInterval().toNanos();
    if (now - lastHeard < interval) {
      return lastHeard + interval - now;
    }
    asked = true;
    askedAt = now;
    out.control(Zmtp.ping());
    if (!blocked) {
      flush();
    }
    return timeout;
  }

  /** Closes the socket; the reason is how it is told. */
  String end(Exception cause) {
    if (cause instanceof ZmtpException told && told.toldPeer() != null) {
      tell(told.toldPeer());
    }
    ended = true;
    refused = !connected && cause instanceof ConnectException;
    SocketChannel was = socket;
    if (was != null) {
      try {
        was.close();
      } catch (IOException e) {
        cause.addSuppressed(e);
      }
    }
    String what =
        ready
            ? "connection lost"
            : connected ? "connection lost before the handshake was done" : "cannot connect";
    return what + ": " + cause.getMessage();
  }

  /** Tells the peer why, if the socket takes it at once. */
  private void tell(String reason) {
    out.control(Zmtp.error(reason));
    try {
      flush();
    } catch (IOException | RuntimeException e) {
      broken = true;
    }
  }

  // ---- what the peer sent

  @Override
  public void greeting(byte[] greeting) throws ZmtpException {
    // ZMTP 3.0 has no heartbeats. Requesters get none of ours either: vLLM's would make a new
    // connection after a cut, and wait for the lost answer until its own timeout; TCP's keepalive
    // finds the dead ones.
    heartbeats = Zmtp.checkGreeting(greeting) >= 1 && isMadeByUs();
    say(handshake.onGreeting(greeting));
  }

  private void say(byte @Nullable [] next) {
    if (next != null) {
      out.control(next);
    }
  }

  @Override
  public void command(byte[] body) throws ZmtpException {
    Zmtp.Command command = Zmtp.commandOf(body);
    switch (command) {
      case HELLO, WELCOME, INITIATE, READY -> {
        say(handshake.onCommand(command, body));
        ready = handshake.isDone();
      }
      case ERROR ->
          throw new ZmtpException("refused by the peer, reason=" + Zmtp.errorReason(body));
      case PING -> {
        requireReady();
        out.pong(Zmtp.pong(body));
      }
      case PONG, OTHER -> requireReady();
    }
  }

  @Override
  public void message(byte[] body) throws ZmtpException {
    requireReady();
    arrivedInTurn++;
    channel.arrived(this, body);
  }

  @Override
  public void multipart(int frames) throws ZmtpException {
    requireReady();
    arrivedInTurn++;
    if (isMadeByUs()) {
      throw new ZmtpException("answer of several frames, frames=" + frames);
    }
    channel.arrivedInPieces(this, frames);
  }

  private void requireReady() throws ZmtpException {
    if (!ready) {
      throw new ZmtpException("no handshake first");
    }
  }

  @Override
  public String toString() {
    return (isMadeByUs() ? "connection to " : identity + " at ") + address;
  }
}
