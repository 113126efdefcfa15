package dev.mooncake4j.examples.proxy;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PushbackInputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A server in a test's hand: each request is taken, looked at and answered piece by piece. On plain
 * sockets, so that it sees at once when its client goes away, as vLLM's server does.
 */
final class FakeServer implements AutoCloseable {
  private static final int PATIENCE_SECONDS = 20;

  private final ServerSocket listener;
  private final LinkedBlockingQueue<Call> calls = new LinkedBlockingQueue<>();
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
  private volatile @Nullable Consumer<Call> always;

  FakeServer() throws IOException {
    listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    Thread.ofVirtual().start(this::accept);
  }

  /** One that answers every request at once. */
  static FakeServer answering(Consumer<Call> answer) throws IOException {
    FakeServer server = new FakeServer();
    server.always = answer;
    return server;
  }

  /** A bootstrap server that knows these engines, by their data-parallel ranks. */
  static FakeServer bootstrap(String... engineIds) throws IOException {
    return answering(call -> call.respond(200, query(engineIds)));
  }

  static String query(String... engineIds) {
    StringBuilder json = new StringBuilder("{");
    for (int i = 0; i < engineIds.length; i++) {
      json.append(i > 0 ? "," : "")
          .append("\"%d\":{\"engine_id\":\"%s\",".formatted(i, engineIds[i]))
          .append("\"worker_addr\":{\"0\":{\"0\":\"tcp://127.0.0.1:1\"}}}");
    }
    return json.append("}").toString();
  }

  int port() {
    return listener.getLocalPort();
  }

  String url() {
    return "http://127.0.0.1:" + port();
  }

  /** The next request. */
  Call take() throws InterruptedException {
    Call call = calls.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no request came to " + url());
    }
    return call;
  }

  /** Whether no request is left that was not taken. */
  boolean isIdle() {
    return calls.isEmpty();
  }

  private void accept() {
    try {
      while (true) {
        Socket socket = listener.accept();
        sockets.add(socket);
        Thread.ofVirtual().start(() -> serve(socket));
      }
    } catch (IOException e) {
      // Closed.
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      PushbackInputStream in = new PushbackInputStream(socket.getInputStream());
      while (true) {
        String head = head(in);
        if (head.isEmpty()) {
          return;
        }
        Call call = new Call(socket, head, in);
        Consumer<Call> answer = always;
        if (answer != null) {
          answer.accept(call);
          continue;
        }
        calls.add(call);
        int next = in.read();
        if (next < 0) {
          call.gone.countDown();
          return;
        }
        in.unread(next);
      }
    } catch (IOException e) {
      // The client is gone, or the test is over.
    } finally {
      sockets.remove(socket);
    }
  }

  private static String head(InputStream in) throws IOException {
    ByteArrayOutputStream head = new ByteArrayOutputStream();
    while (true) {
      int b = in.read();
      if (b < 0) {
        return "";
      }
      head.write(b);
      String text = head.toString(StandardCharsets.ISO_8859_1);
      if (text.endsWith("\r\n\r\n")) {
        return text;
      }
    }
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }

  /** One request and its answer. */
  static final class Call {
    final String line;
    final Map<String, String> headers = new HashMap<>();
    final String body;
    private final Socket socket;
    private final CountDownLatch gone = new CountDownLatch(1);

    private Call(Socket socket, String head, InputStream in) throws IOException {
      this.socket = socket;
      String[] lines = head.strip().split("\r\n", -1);
      line = lines[0];
      for (int i = 1; i < lines.length; i++) {
        int colon = lines[i].indexOf(':');
        headers.put(
            lines[i].substring(0, colon).toLowerCase(Locale.ROOT),
            lines[i].substring(colon + 1).strip());
      }
      int length = Integer.parseInt(headers.getOrDefault("content-length", "0"));
      body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
    }

    String path() {
      return line.split(" ", -1)[1];
    }

    JsonNode json() {
      return JsonMapper.shared().readTree(body);
    }

    JsonNode params() {
      return json().get("kv_transfer_params");
    }

    void respond(int status, String json) {
      write(
          "HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
              .formatted(status, json.getBytes(StandardCharsets.UTF_8).length, json));
    }

    void begin() {
      write(
          String.join(
              "\r\n",
              "HTTP/1.1 200 OK",
              "content-type: text/event-stream; charset=utf-8",
              "transfer-encoding: chunked",
              "",
              ""));
    }

    void chunk(String text) {
      write("%x\r\n%s\r\n".formatted(text.getBytes(StandardCharsets.UTF_8).length, text));
    }

    void end() {
      write("0\r\n\r\n");
    }

    void cut() throws IOException {
      socket.close();
    }

    /** Waits until the client has closed the connection. */
    void awaitGone() throws InterruptedException {
      if (!gone.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        throw new AssertionError("the client has not gone: " + line);
      }
    }

    private void write(String text) {
      try {
        socket.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
        socket.getOutputStream().flush();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
