package dev.mooncake4j.core.channel;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.NanoClock;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import jdk.net.ExtendedSocketOptions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The socket on which requesters connect. State of the channel's owner. */
final class ZmtpListener {
  private static final Logger log = LoggerFactory.getLogger(ZmtpListener.class);

  private static final int BACKLOG = 1024;
  private static final int ACCEPTS_PER_TURN = 64;

  /** No file descriptors left: trying again at once would only burn the processor. */
  private static final Duration PAUSE = Duration.ofSeconds(1);

  // A requester that is gone without a word is found by the kernel after 90 s.
  private static final int KEEPALIVE_IDLE_SECONDS = 60;
  private static final int KEEPALIVE_INTERVAL_SECONDS = 10;
  private static final int KEEPALIVE_COUNT = 3;

  private final ZmtpSideChannel channel;
  private final NanoClock clock;
  private final ServerSocketChannel socket;
  private final SelectionKey key;
  private boolean full;
  private boolean paused;
  private long againAt;

  private ZmtpListener(
      ZmtpSideChannel channel, NanoClock clock, ServerSocketChannel socket, Selector selector)
      throws IOException {
    this.channel = channel;
    this.clock = clock;
    this.socket = socket;
    key = socket.register(selector, SelectionKey.OP_ACCEPT, this);
  }

  /** Listens on a free port. */
  static ZmtpListener open(ZmtpSideChannel channel, String host, Selector selector, NanoClock clock)
      throws IOException {
    String bare = HostAddresses.bare(host);
    InetAddress address = InetAddress.getByName(bare.equals("*") ? "0.0.0.0" : bare);
    ServerSocketChannel socket = ServerSocketChannel.open();
    try {
      socket.configureBlocking(false);
      socket.bind(new InetSocketAddress(address, 0), BACKLOG);
      return new ZmtpListener(channel, clock, socket, selector);
    } catch (IOException e) {
      socket.close();
      throw e;
    }
  }

  int port() {
    return socket.socket().getLocalPort();
  }

  /** Takes in who waits. */
  void accept() {
    try {
      for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        SocketChannel peer = socket.accept();
        if (peer == null) {
          return;
        }
        welcome(peer);
      }
    } catch (IOException e) {
      log.warn("side channel: cannot accept a connection, trying again in {}", PAUSE, e);
      paused = true;
      againAt = clock.nanoTime() + PAUSE.toNanos();
      channel.lookAtTimesBy(againAt);
      key.interestOps(0);
    }
  }

  private void welcome(SocketChannel peer) throws IOException {
    boolean welcome = false;
    try {
      tune(peer);
      welcome = channel.welcome(peer);
      if (!welcome && !full) {
        log.warn("side channel: too many requesters, more are refused");
      }
      full = !welcome;
    } catch (IOException e) {
      log.debug("side channel: a requester was gone before it was taken in", e);
    } finally {
      if (!welcome) {
        peer.close();
      }
    }
  }

  private static void tune(SocketChannel peer) throws IOException {
    peer.configureBlocking(false);
    peer.setOption(StandardSocketOptions.TCP_NODELAY, true);
    peer.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
    if (peer.supportedOptions().contains(ExtendedSocketOptions.TCP_KEEPIDLE)) {
      peer.setOption(ExtendedSocketOptions.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS);
      peer.setOption(ExtendedSocketOptions.TCP_KEEPINTERVAL, KEEPALIVE_INTERVAL_SECONDS);
      peer.setOption(ExtendedSocketOptions.TCP_KEEPCOUNT, KEEPALIVE_COUNT);
    }
  }

  /**
   * Goes on after a pause.
   *
   * @return nanoseconds until the clock is to be looked at again
   */
  long checkTime(long now) {
    if (!paused) {
      return Long.MAX_VALUE;
    }
    if (now - againAt < 0) {
      return againAt - now;
    }
    paused = false;
    key.interestOps(SelectionKey.OP_ACCEPT);
    return Long.MAX_VALUE;
  }

  void close() throws IOException {
    socket.close();
  }
}
