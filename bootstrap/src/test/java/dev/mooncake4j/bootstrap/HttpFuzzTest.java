package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;

/** Damaged requests, thousands of them: every connection ends, and the next query is answered. */
class HttpFuzzTest {
  private static final int CONNECTIONS = 3000;
  private static final Pattern STATUS = Pattern.compile("HTTP/1\\.1 (\\d{3}) ");

  private static final List<String> WHOLE =
      List.of(
          "GET /query HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
          "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
          post(
              "/register",
              "{\"engine_id\":\"e\",\"dp_rank\":0,\"tp_rank\":0,\"pp_rank\":0,\"addr\":\"tcp://127.0.0.1:1\"}"),
          post(
              "/deregister",
              "{\"engine_id\":\"e\",\"dp_rank\":0,\"tp_rank\":\"0\",\"pp_rank\":0.0}"),
          "POST /register HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\nX: y\r\n\r\n",
          "POST /register HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}");

  private static final List<String> PIECES =
      List.of(
          "\r\n",
          "\r\n\r\n",
          "\n",
          "\r",
          "\0",
          " ",
          ":",
          "Content-Length: 5\r\n",
          "Content-Length: 99999999999999999999\r\n",
          "Transfer-Encoding: chunked\r\n",
          "Transfer-Encoding: gzip, chunked\r\n",
          "Connection: Upgrade\r\nUpgrade: h2c\r\n",
          "Expect: 100-continue\r\n",
          "HTTP/1.1",
          "HTTP/9.9",
          "%",
          "%00",
          "{",
          "}",
          "\"",
          "[[[[[[",
          "\\ud800",
          "1e999",
          "-",
          "ffffffff\r\n",
          "0\r\n\r\n");

  private static String post(String path, String body) {
    return "POST "
        + path
        + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
        + body.length()
        + "\r\n\r\n"
        + body;
  }

  @AfterAll
  static void noBufferIsLeft() {
    assertThat(RecordingLeakDetector.leaks()).isEmpty();
  }

  @Test
  void anyBytesAreAnsweredOrClosed() throws IOException {
    long seed = Long.getLong("seed", System.nanoTime());
    System.out.println("HttpFuzzTest seed=" + seed + " (repeat with -Dseed=" + seed + ")");
    Random random = new Random(seed);
    int[] answered = new int[600];
    try (ServerFixture fixture = new ServerFixture()) {
      for (int i = 0; i < CONNECTIONS; i++) {
        byte[] input = input(random);
        String output = talk(fixture.port(), input, random);
        Matcher status = STATUS.matcher(output);
        assertThat(output.isEmpty() || status.lookingAt())
            .as("seed=%d, i=%d, output=%s", seed, i, output)
            .isTrue();
        status.reset();
        while (status.find()) {
          int code = Integer.parseInt(status.group(1));
          answered[code]++;
          assertThat(code)
              .as("seed=%d, i=%d", seed, i)
              .isIn(100, 200, 400, 404, 405, 413, 414, 422, 431, 505);
        }
        if (i % 100 == 0) {
          assertThat(RawHttp.get(fixture.port(), "/query").status())
              .as("seed=%d, i=%d", seed, i)
              .isEqualTo(200);
        }
      }
    }
    // The damage reaches every layer.
    for (int code : new int[] {200, 400, 404, 405, 422}) {
      assertThat(answered[code]).as("answers with status %d, seed=%d", code, seed).isPositive();
    }
  }

  private static byte[] input(Random random) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (int requests = random.nextInt(4); requests >= 0; requests--) {
      StringBuilder text = new StringBuilder(WHOLE.get(random.nextInt(WHOLE.size())));
      for (int damages = random.nextInt(4); damages > 0; damages--) {
        int at = random.nextInt(text.length());
        switch (random.nextInt(4)) {
          case 0 -> text.setCharAt(at, (char) random.nextInt(256));
          case 1 -> text.insert(at, PIECES.get(random.nextInt(PIECES.size())));
          case 2 -> text.delete(at, Math.min(text.length() - 1, at + random.nextInt(20)));
          default -> text.insert(at, "x".repeat(1 << random.nextInt(16)));
        }
      }
      bytes.writeBytes(text.toString().getBytes(StandardCharsets.ISO_8859_1));
    }
    return bytes.toByteArray();
  }

  /** Sends in one piece or several, says that this is all, and reads until the server closes. */
  private static String talk(int port, byte[] input, Random random) throws IOException {
    ByteArrayOutputStream output = new ByteArrayOutputStream();
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.setTcpNoDelay(true);
      // Longer than the server's time-outs: a connection that does not end fails the test.
      socket.setSoTimeout(60_000);
      int cut = random.nextInt(input.length + 1);
      socket.getOutputStream().write(input, 0, cut);
      socket.getOutputStream().write(input, cut, input.length - cut);
      socket.shutdownOutput();
      InputStream in = socket.getInputStream();
      byte[] buffer = new byte[8192];
      for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
        output.write(buffer, 0, n);
      }
    } catch (SocketException e) {
      // A reset is an end as well; what came before it counts.
      return output.toString(StandardCharsets.ISO_8859_1);
    }
    return output.toString(StandardCharsets.ISO_8859_1);
  }
}
