package dev.mooncake4j.engine;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;

/** Passes connections on to a port of this host, which can be changed. */
final class Forwarder implements AutoCloseable {
  private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private volatile int target;

  Forwarder() throws IOException {
    start(this::accept);
  }

  int port() {
    return server.getLocalPort();
  }

  void to(int port) {
    target = port;
  }

  private void accept() throws IOException {
    while (!server.isClosed()) {
      Socket from = server.accept();
      Socket to = new Socket(InetAddress.getLoopbackAddress(), target);
      start(() -> copy(from, to));
      start(() -> copy(to, from));
    }
  }

  private static void copy(Socket from, Socket to) throws IOException {
    from.getInputStream().transferTo(to.getOutputStream());
    to.shutdownOutput();
  }

  /** What a thread does until its sockets are closed. */
  @FunctionalInterface
  private interface Work {
    void run() throws IOException;
  }

  private static void start(Work work) {
    Thread.ofPlatform()
        .daemon()
        .start(
            () -> {
              try {
                work.run();
              } catch (IOException e) {
                // The test has ended, or one of the two sides has.
              }
            });
  }

  @Override
  public void close() throws IOException {
    server.close();
  }
}
