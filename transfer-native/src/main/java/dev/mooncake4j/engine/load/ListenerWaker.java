package dev.mooncake4j.engine.load;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.concurrent.locks.LockSupport;

/**
 * Knocks at an engine's port while the engine is destroyed.
 *
 * <p>The engine's listener looks whether it should end only between two connections, or once a
 * second. A connection that says nothing and ends is all that it needs.
 */
final class ListenerWaker {
  private static final long PAUSE_NANOS = 2_000_000;
  private static final int CONNECT_MILLIS = 200;

  private volatile boolean stopped;

  private ListenerWaker() {}

  /** Starts to knock at a port of this machine, unless it is -1. */
  static ListenerWaker start(int port) {
    ListenerWaker waker = new ListenerWaker();
    if (port >= 0) {
      InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
      Thread.ofPlatform().daemon().name("m4j-engine-waker").start(() -> waker.knock(address));
    }
    return waker;
  }

  private void knock(InetSocketAddress address) {
    while (!stopped) {
      LockSupport.parkNanos(PAUSE_NANOS);
      try (Socket socket = new Socket()) {
        socket.connect(address, CONNECT_MILLIS);
      } catch (IOException e) {
        // Nobody listens any more.
        return;
      }
    }
  }

  /** Ends the knocking, soon. */
  void stop() {
    stopped = true;
  }
}
