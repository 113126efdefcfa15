package dev.mooncake4j.it;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Passes TCP connections on to a port of this host, but resets the first few. */
final class FlakyProxy implements AutoCloseable {
  private final ServerSocket listener;
  private final int target;
  private final int resets;
  private final AtomicInteger connections = new AtomicInteger();
  private final Set<Socket> open = ConcurrentHashMap.newKeySet();

  private FlakyProxy(ServerSocket listener, int target, int resets) {
    this.listener = listener;
    this.target = target;
    this.resets = resets;
  }

  /** A proxy on a free port that resets so many connections before it passes others on. */
  static FlakyProxy start(int target, int resets) {
    try {
      ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
      FlakyProxy proxy = new FlakyProxy(listener, target, resets);
      Thread.ofPlatform().daemon().name("flaky-proxy").start(proxy::accept);
      return proxy;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  int port() {
    return listener.getLocalPort();
  }

  /** Connections so far, with those that were reset. */
  int connections() {
    return connections.get();
  }

  private void accept() {
    try {
      while (true) {
        Socket client = listener.accept();
        if (connections.incrementAndGet() <= resets) {
          client.setSoLinger(true, 0);
          client.close();
          continue;
        }
        Socket server = new Socket(InetAddress.getLoopbackAddress(), target);
        open.add(client);
        open.add(server);
        Thread.ofVirtual().start(() -> copy(client, server));
        Thread.ofVirtual().start(() -> copy(server, client));
      }
    } catch (IOException e) {
      // Closed.
    }
  }

  private static void copy(Socket from, Socket to) {
    try (from;
        to;
        InputStream in = from.getInputStream();
        OutputStream out = to.getOutputStream()) {
      in.transferTo(out);
    } catch (IOException e) {
      // One side has gone, and so does the other.
    }
  }

  @Override
  public void close() {
    try {
      listener.close();
      for (Socket socket : open) {
        socket.close();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
