package dev.mooncake4j.bootstrap;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;

/** One connection to a server, on which any bytes can be sent. */
final class RawHttp implements AutoCloseable {

  /** An answer as it came. */
  record Response(int status, Map<String, String> headers, String body) {
    JsonNode json() {
      return Json.MAPPER.readTree(body);
    }
  }

  private final Socket socket = new Socket();
  private final InputStream in;

  RawHttp(int port) throws IOException {
    socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 10_000);
    // So that a test against a server that hangs fails.
    socket.setSoTimeout(20_000);
    socket.setTcpNoDelay(true);
    in = new BufferedInputStream(socket.getInputStream());
  }

  static Response get(int port, String path) throws IOException {
    return ask(port, "GET", path, null, null);
  }

  static Response postJson(int port, String path, String body) throws IOException {
    return ask(port, "POST", path, "application/json", body.getBytes(StandardCharsets.UTF_8));
  }

  static Response ask(
      int port, String method, String path, @Nullable String contentType, byte @Nullable [] body)
      throws IOException {
    try (RawHttp http = new RawHttp(port)) {
      http.send(request(method, path, contentType, body));
      return http.response();
    }
  }

  static byte[] request(
      String method, String path, @Nullable String contentType, byte @Nullable [] body) {
    StringBuilder head = new StringBuilder();
    head.append(method).append(' ').append(path).append(" HTTP/1.1\r\nHost: localhost\r\n");
    if (contentType != null) {
      head.append("Content-Type: ").append(contentType).append("\r\n");
    }
    if (body != null) {
      head.append("Content-Length: ").append(body.length).append("\r\n");
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bytes.writeBytes(head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1));
    if (body != null) {
      bytes.writeBytes(body);
    }
    return bytes.toByteArray();
  }

  RawHttp send(byte[] bytes) throws IOException {
    socket.getOutputStream().write(bytes);
    socket.getOutputStream().flush();
    return this;
  }

  RawHttp send(String text) throws IOException {
    return send(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  RawHttp closeOutput() throws IOException {
    socket.shutdownOutput();
    return this;
  }

  /** Reads one answer; headers have lower-case names. */
  Response response() throws IOException {
    return response(true);
  }

  /** The answer to HEAD, which has no body whatever its length says. */
  Response responseWithoutBody() throws IOException {
    return response(false);
  }

  private Response response(boolean withBody) throws IOException {
    String[] status = line().split(" ", 3);
    Map<String, String> headers = new TreeMap<>();
    for (String line = line(); !line.isEmpty(); line = line()) {
      int colon = line.indexOf(':');
      headers.put(
          line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
    }
    int length = withBody ? Integer.parseInt(headers.getOrDefault("content-length", "0")) : 0;
    byte[] body = in.readNBytes(length);
    if (body.length < length) {
      throw new IOException("closed within a body: " + body.length + " of " + length);
    }
    return new Response(
        Integer.parseInt(status[1]), headers, new String(body, StandardCharsets.UTF_8));
  }

  private String line() throws IOException {
    StringBuilder line = new StringBuilder();
    for (int c = in.read(); c != '\n'; c = in.read()) {
      if (c < 0) {
        throw new IOException("closed within a header: " + line);
      }
      if (c != '\r') {
        line.append((char) c);
      }
    }
    return line.toString();
  }

  /**
   * Whether the server closes the connection, in good order or with a reset, within the time-out.
   */
  boolean isClosedByServer() throws IOException {
    try {
      in.readAllBytes();
      return true;
    } catch (SocketTimeoutException e) {
      return false;
    } catch (SocketException e) {
      return true;
    }
  }

  /** Reads to the end, which is a failure if it is a reset. */
  byte[] rest() throws IOException {
    return in.readAllBytes();
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
