package dev.mooncake4j.bootstrap;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A server that does with each request what a script says; the last line of it is repeated. */
final class FakeServer implements AutoCloseable {

  /** What to do once a request has been read. */
  interface Step {
    void serve(FakeServer self, Socket socket) throws IOException, InterruptedException;
  }

  final List<String> requests = new CopyOnWriteArrayList<>();
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();
  private final CountDownLatch closed = new CountDownLatch(1);
  private final ServerSocket listening;
  private final List<Step> script;

  FakeServer(Step... script) throws IOException {
    this(0, script);
  }

  FakeServer(int port, Step... script) throws IOException {
    this.script = List.of(script);
    listening = new ServerSocket(port, 100, InetAddress.getLoopbackAddress());
    Thread.ofPlatform().daemon().name("fake-server").start(this::accept);
  }

  int port() {
    return listening.getLocalPort();
  }

  URI uri() {
    return BootstrapAddress.of("127.0.0.1", port());
  }

  static Step answer(int status, String body) {
    return answer(status, "Content-Type: application/json\r\n", body);
  }

  static Step answer(int status, String headers, String body) {
    return (self, socket) -> {
      byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
      String head =
          "HTTP/1.1 %d X\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n"
              .formatted(status, headers, bytes.length);
      socket.getOutputStream().write(head.getBytes(StandardCharsets.ISO_8859_1));
      socket.getOutputStream().write(bytes);
      socket.getOutputStream().flush();
    };
  }

  static Step raw(String text) {
    return (self, socket) ->
        socket.getOutputStream().write(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  static Step reset() {
    return (self, socket) -> socket.setSoLinger(true, 0);
  }

  static Step hangUp() {
    return (self, socket) -> {};
  }

  /** Says nothing until the server is closed. */
  static Step silent() {
    return (self, socket) -> self.closed.await(60, TimeUnit.SECONDS);
  }

  private void accept() {
    while (true) {
      try {
        Socket socket = listening.accept();
        sockets.add(socket);
        // Not virtual: their pollers' descriptors would look like leaks.
        Thread.ofPlatform().daemon().name("fake-server").start(() -> serve(socket));
      } catch (IOException e) {
        return;
      }
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      String request = read(socket.getInputStream());
      int number;
      synchronized (this) {
        number = requests.size();
        requests.add(request);
      }
      script.get(Math.min(number, script.size() - 1)).serve(this, socket);
    } catch (IOException e) {
      // The client has hung up, which is what some tests are about.
      requests.add("ended with " + e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static String read(InputStream in) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    int length = -1;
    int end = 0;
    while (length < 0 || bytes.size() < end + length) {
      int c = in.read();
      if (c < 0) {
        throw new IOException("hung up");
      }
      bytes.write(c);
      String text = bytes.toString(StandardCharsets.UTF_8);
      if (length < 0 && text.endsWith("\r\n\r\n")) {
        end = bytes.size();
        length = 0;
        for (String line : text.lines().toList()) {
          if (line.toLowerCase(Locale.ROOT).startsWith("content-length:")) {
            length = Integer.parseInt(line.substring(15).strip());
          }
        }
      }
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  @Override
  public void close() throws IOException {
    closed.countDown();
    listening.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}
