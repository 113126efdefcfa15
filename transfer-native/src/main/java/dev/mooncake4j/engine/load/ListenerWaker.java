package dev.mooncake4j.engine.load;

import dev.mooncake4j.connector.HostAddresses;
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

  /** Starts to knock at the port of {@code host:port} on this machine. */
  static ListenerWaker start(String hostAndPort) {
    ListenerWaker waker = new ListenerWaker();
    try {
      InetSocketAddress address =
          new InetSocketAddress(
              InetAddress.getLoopbackAddress(), HostAddresses.portOf(hostAndPort));
      Thread.ofPlatform().daemon().name("m4j-engine-waker").start(() -> waker.knock(address));
    } catch (IllegalArgumentException e) {
      // An engine without an address has no listener.
      waker.stop();
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
