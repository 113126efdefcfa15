package dev.mooncake4j.core.channel;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.sun.management.ThreadMXBean;
import dev.mooncake4j.connector.SharedSecret;
import java.io.ByteArrayOutputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * The decoder of ZMTP streams: the pieces found are the same however the bytes come in, what is not
 * ZMTP is a ZmtpException, and no memory is taken for what is only promised.
 */
class ZmtpFuzzTest {
  private static final int LIMIT = 64 << 20;

  /** The first piece of a body, an exception, and what the fuzzer's own hooks take. */
  private static final int COST_OF_ANY = 1 << 20;

  /** A frame of two bytes has two empty arrays, and its buffer may be copied as it grows. */
  private static final int COST_OF_A_BYTE = 64;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** Does with a peer's pieces what a connection does, and takes them down. */
  private static final SharedSecret SECRET = SharedSecret.of("a-secret-for-fuzzing");

  private static final class Pieces implements ZmtpDecoder.Sink {
    final List<String> found = new ArrayList<>();
    final ByteArrayOutputStream messages = new ByteArrayOutputStream();

    @Override
    public void greeting(byte[] greeting) throws ZmtpException {
      found.add("greeting " + Zmtp.checkGreeting(greeting));
    }

    @Override
    public void command(byte[] body) throws ZmtpException {
      Zmtp.Command command = Zmtp.commandOf(body);
      found.add(command + " " + HexFormat.of().formatHex(body));
      switch (command) {
        case READY, INITIATE -> Zmtp.checkMetadata(body, Zmtp.Role.ROUTER);
        case HELLO -> Zmtp.isHello(body, SECRET);
        case ERROR ->
            assertThat(Zmtp.errorReason(body))
                .hasSizeLessThanOrEqualTo(Zmtp.MAX_SHOWN + 1)
                .matches("[ -~…]*");
        case PING -> assertThat(Zmtp.pong(body)).hasSizeBetween(7, 7 + 16);
        case WELCOME, PONG, OTHER -> {}
      }
    }

    @Override
    public void message(byte[] body) {
      found.add("message " + HexFormat.of().formatHex(body));
      messages.writeBytes(Zmtp.head(body.length));
      messages.writeBytes(body);
    }

    @Override
    public void multipart(int frames) {
      assertThat(frames).isGreaterThan(1);
      found.add("multipart " + frames);
    }
  }

  /** Looks at nothing and keeps nothing. */
  private static final class Nothing implements ZmtpDecoder.Sink {
    @Override
    public void greeting(byte[] greeting) {}

    @Override
    public void command(byte[] body) {}

    @Override
    public void message(byte[] body) {}

    @Override
    public void multipart(int frames) {}
  }

  /** Without a greeting of its own, what comes is taken for what follows one. */
  @FuzzTest
  void stream(byte[] bytes) throws ZmtpException {
    byte[] stream = bytes.length > 0 && bytes[0] == (byte) 0xff ? bytes : afterGreeting(bytes);
    Pieces whole = decoded(stream, stream.length);
    assertThat(decoded(stream, 1).found).isEqualTo(whole.found);
    assertThat(decoded(stream, 7).found).isEqualTo(whole.found);

    long most = COST_OF_ANY + (long) COST_OF_A_BYTE * stream.length;
    long cost = Long.MAX_VALUE;
    // What is done for the first time loads classes.
    for (int i = 0; i < 3 && cost > most; i++) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      try {
        new ZmtpDecoder(LIMIT).decode(ByteBuffer.wrap(stream), new Nothing());
      } catch (ZmtpException expected) {
        assertThat(expected.getMessage()).isNotBlank();
      }
      cost = THREADS.getCurrentThreadAllocatedBytes() - before;
    }
    assertThat(cost).isLessThanOrEqualTo(most);

    Pieces again = new Pieces();
    new ZmtpDecoder(LIMIT)
        .decode(ByteBuffer.wrap(afterGreeting(whole.messages.toByteArray())), again);
    assertThat(again.messages.toByteArray()).isEqualTo(whole.messages.toByteArray());
  }

  private static byte[] afterGreeting(byte[] bytes) {
    byte[] greeting = Zmtp.greeting(false, false);
    return ByteBuffer.allocate(greeting.length + bytes.length).put(greeting).put(bytes).array();
  }

  /**
   * Decodes a stream that comes in pieces of that many bytes; how it ends is the last one found.
   */
  private static Pieces decoded(byte[] stream, int step) {
    ZmtpDecoder decoder = new ZmtpDecoder(LIMIT);
    Pieces pieces = new Pieces();
    try {
      for (int at = 0; at < stream.length; at += step) {
        ByteBuffer piece = ByteBuffer.wrap(stream, at, Math.min(step, stream.length - at));
        decoder.decode(piece, pieces);
        assertThat(piece.hasRemaining()).isFalse();
      }
    } catch (ZmtpException e) {
      pieces.found.add("refused " + e.getMessage());
    }
    return pieces;
  }
}
