package dev.mooncake4j.core.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.SharedSecret;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The byte streams of ZMTP, without sockets. */
@NullMarked
class ZmtpStreamTest {
  private static final HexFormat HEX = HexFormat.of();
  private static final int LIMIT = 1 << 20;

  /** Takes down what a decoder finds. */
  private static final class Pieces implements ZmtpDecoder.Sink {
    final List<String> found = new ArrayList<>();

    @Override
    public void greeting(byte[] greeting) throws ZmtpException {
      found.add("greeting " + Zmtp.checkGreeting(greeting));
    }

    @Override
    public void command(byte[] body) throws ZmtpException {
      found.add("command " + Zmtp.commandOf(body));
    }

    @Override
    public void message(byte[] body) {
      found.add("message " + (body.length > 20 ? body.length : HEX.formatHex(body)));
    }

    @Override
    public void multipart(int frames) {
      found.add("multipart " + frames);
    }
  }

  @Test
  void handshakeAndFramesAreThoseOfTheCapturedProcesses() throws Exception {
    JsonNode capture = capture();
    for (Zmtp.Role role : Zmtp.Role.values()) {
      JsonNode side = capture.get(role == Zmtp.Role.DEALER ? "client" : "server");
      // The filler of the signature is free; libzmq puts the length of an identity there.
      assertThat(HEX.formatHex(new ZmtpHandshake(role, null).greeting()))
          .isEqualTo(side.get("greeting").asString());
      JsonNode ready = side.get("frames").get(0);
      assertThat(HEX.formatHex(Zmtp.ready(role)))
          .isEqualTo(ready.get("header_hex").asString() + ready.get("body").asString());
      JsonNode message = side.get("frames").get(1);
      assertThat(HEX.formatHex(Zmtp.head(message.get("size").asInt())))
          .isEqualTo(message.get("header_hex").asString());
    }
  }

  @Test
  void theCapturedStreamIsReadHoweverItIsCut() throws Exception {
    for (String name : List.of("client", "server")) {
      JsonNode side = capture().get(name);
      StringBuilder hex = new StringBuilder(side.get("greeting").asString());
      side.get("frames")
          .forEach(
              f -> hex.append(f.get("header_hex").asString()).append(f.get("body").asString()));
      hex.append("0102aabb0001cc").append("0409").append("0450494e470000abcd").append("0000");
      byte[] stream = HEX.parseHex(hex);
      int size = side.get("frames").get(1).get("size").asInt();
      List<String> expected =
          List.of(
              "greeting 1",
              "command READY",
              "message " + size,
              "multipart 2",
              "command PING",
              "message ");
      for (int cut = 0; cut <= stream.length; cut++) {
        assertThat(decode(stream, cut)).isEqualTo(expected);
      }
      ZmtpDecoder decoder = new ZmtpDecoder(LIMIT);
      Pieces single = new Pieces();
      for (byte b : stream) {
        decoder.decode(ByteBuffer.wrap(new byte[] {b}), single);
      }
      assertThat(single.found).isEqualTo(expected);
    }
  }

  private static List<String> decode(byte[] stream, int cut) throws ZmtpException {
    ZmtpDecoder decoder = new ZmtpDecoder(LIMIT);
    Pieces pieces = new Pieces();
    decoder.decode(ByteBuffer.wrap(stream, 0, cut), pieces);
    decoder.decode(ByteBuffer.wrap(stream, cut, stream.length - cut), pieces);
    return pieces.found;
  }

  @Test
  void aPromisedLengthAllocatesNothing() throws Exception {
    ZmtpDecoder decoder = new ZmtpDecoder(Integer.MAX_VALUE);
    Pieces pieces = new Pieces();
    decoder.decode(ByteBuffer.wrap(Zmtp.greeting(false, false)), pieces);
    long before = allocatedBytes();
    decoder.decode(ByteBuffer.wrap(HEX.parseHex("02000000007fffffff" + "0102030405")), pieces);
    assertThat(allocatedBytes() - before).isLessThan(200_000);

    // Of a message of several frames nothing is kept at all.
    ZmtpDecoder many = new ZmtpDecoder(LIMIT);
    many.decode(ByteBuffer.wrap(Zmtp.greeting(false, false)), pieces);
    byte[] frame = new byte[9 + LIMIT];
    ByteBuffer.wrap(frame).put((byte) 3).putLong(LIMIT);
    before = allocatedBytes();
    for (int i = 0; i < 50; i++) {
      many.decode(ByteBuffer.wrap(frame), pieces);
    }
    many.decode(ByteBuffer.wrap(new byte[] {0, 0}), pieces);
    assertThat(allocatedBytes() - before).isLessThan(200_000);
    assertThat(pieces.found).containsExactly("greeting 1", "greeting 1", "multipart 51");
  }

  @Test
  void lengthsOverTheLimitAreRefused() throws Exception {
    for (String length :
        List.of(
            "0000000000100001",
            "00000000ffffffff",
            "7fffffffffffffff",
            "8000000000000000",
            "ffffffffffffffff",
            "ffffffff00000001")) {
      for (String flags : List.of("02", "03", "06")) {
        ZmtpDecoder decoder = new ZmtpDecoder(LIMIT);
        decoder.decode(ByteBuffer.wrap(Zmtp.greeting(false, false)), new Pieces());
        assertThatThrownBy(
                () -> decoder.decode(ByteBuffer.wrap(HEX.parseHex(flags + length)), new Pieces()))
            .isInstanceOf(ZmtpException.class)
            .hasMessageContaining("frame too large");
      }
    }
  }

  @Test
  void noiseIsReadOrRefused() {
    long seed = Long.getLong("m4j.seed", System.nanoTime());
    System.out.println("ZmtpStreamTest seed=" + seed);
    SplittableRandom random = new SplittableRandom(seed);
    int refused = 0;
    for (int i = 0; i < 20_000; i++) {
      ZmtpDecoder decoder = new ZmtpDecoder(LIMIT);
      Pieces pieces = new Pieces();
      byte[] noise = new byte[random.nextInt(200)];
      random.nextBytes(noise);
      try {
        decoder.decode(ByteBuffer.wrap(Zmtp.greeting(false, false)), pieces);
        decoder.decode(ByteBuffer.wrap(noise), pieces);
      } catch (ZmtpException e) {
        refused++;
      } catch (RuntimeException e) {
        throw new AssertionError("seed=" + seed + " noise=" + HEX.formatHex(noise), e);
      }
      if (noise.length > 6) {
        noise[0] = 5; // the length of a command's name, which was looked at before
        try {
          Zmtp.errorReason(noise);
          assertThat(Zmtp.isHello(noise, SharedSecret.of("0123456789abcdef"))).isFalse();
        } catch (ZmtpException e) {
          refused++;
        }
        try {
          Zmtp.checkMetadata(noise, Zmtp.Role.ROUTER);
        } catch (ZmtpException e) {
          refused++;
        }
      }
    }
    assertThat(refused).isPositive();
  }

  @Test
  void whatIsQueuedIsWhatIsWritten() throws Exception {
    long seed = Long.getLong("m4j.seed", System.nanoTime());
    System.out.println("ZmtpStreamTest queue seed=" + seed);
    SplittableRandom random = new SplittableRandom(seed);
    for (int round = 0; round < 200; round++) {
      ZmtpOutQueue queue = new ZmtpOutQueue(1000, Integer.MAX_VALUE);
      Trickle trickle = new Trickle(random);
      ByteBuffer staging = ByteBuffer.allocate(random.nextInt(80, 600));
      List<String> expected = new ArrayList<>(List.of("greeting 1"));
      queue.control(Zmtp.greeting(false, false));
      for (int i = 0; i < 20; i++) {
        byte[] payload = new byte[random.nextInt(600)];
        random.nextBytes(payload);
        assertThat(queue.offer(payload)).isTrue();
        expected.add("message " + (payload.length > 20 ? payload.length : HEX.formatHex(payload)));
        if (random.nextInt(3) == 0) {
          queue.flush(trickle, true, staging);
        }
        if (random.nextInt(6) == 0) {
          queue.pong(Zmtp.pong(HEX.parseHex("0450494e470000")));
        }
      }
      for (int i = 0; !queue.flush(trickle, true, staging); i++) {
        assertThat(i).isLessThan(1_000_000);
      }
      Pieces pieces = new Pieces();
      new ZmtpDecoder(LIMIT).decode(ByteBuffer.wrap(trickle.taken.toByteArray()), pieces);
      pieces.found.removeIf(piece -> piece.equals("command PONG"));
      assertThat(pieces.found).as("seed=" + seed).isEqualTo(expected);
    }
  }

  @Test
  void messagesWaitForTheHandshakeAndHeartbeatsPassThem() throws Exception {
    ZmtpOutQueue queue = new ZmtpOutQueue(2, 100);
    Trickle all = new Trickle(null);
    ByteBuffer staging = ByteBuffer.allocate(65_536);
    assertThat(queue.offer(new byte[200])).as("one may always wait").isTrue();
    assertThat(queue.offer(new byte[1])).as("bytes are bounded").isFalse();
    queue.control(Zmtp.greeting(false, false));
    assertThat(queue.flush(all, false, staging)).isTrue();
    assertThat(all.taken.size()).isEqualTo(64);
    queue.control(Zmtp.ping());
    assertThat(queue.flush(all, true, staging)).isTrue();
    assertThat(queue.offer(new byte[1])).isTrue();
    assertThat(queue.offer(new byte[1])).isTrue();
    assertThat(queue.offer(new byte[1])).as("messages are bounded").isFalse();
    assertThat(queue.flush(all, true, staging)).isTrue();
    Pieces pieces = new Pieces();
    new ZmtpDecoder(LIMIT).decode(ByteBuffer.wrap(all.taken.toByteArray()), pieces);
    assertThat(pieces.found)
        .containsExactly("greeting 1", "command PING", "message 200", "message 00", "message 00");
  }

  /** Takes as little as it likes, or all. */
  private static final class Trickle implements WritableByteChannel {
    final ByteArrayOutputStream taken = new ByteArrayOutputStream();
    private final @org.jspecify.annotations.Nullable SplittableRandom random;

    Trickle(@org.jspecify.annotations.Nullable SplittableRandom random) {
      this.random = random;
    }

    @Override
    public int write(ByteBuffer source) {
      int n = random == null ? source.remaining() : random.nextInt(source.remaining() + 1);
      for (int i = 0; i < n; i++) {
        taken.write(source.get());
      }
      return n;
    }

    @Override
    public boolean isOpen() {
      return true;
    }

    @Override
    public void close() {
      throw new UnsupportedOperationException();
    }
  }

  private static JsonNode capture() throws IOException {
    try (InputStream in =
        ZmtpStreamTest.class.getResourceAsStream("/wire-captures/zmtp_handshake.json")) {
      return new ObjectMapper().readTree(java.util.Objects.requireNonNull(in).readAllBytes());
    }
  }

  private static long allocatedBytes() {
    return ((com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean())
        .getCurrentThreadAllocatedBytes();
  }
}
