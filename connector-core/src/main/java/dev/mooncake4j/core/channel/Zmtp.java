package dev.mooncake4j.core.channel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * ZMTP 3.1 as bytes: the greeting, the commands of the NULL mechanism, heartbeats, frame heads.
 * Source: ZeroMQ RFC 37, and the recorded handshake of vLLM's libzmq.
 */
final class Zmtp {
  static final int GREETING_LENGTH = 64;

  static final int FLAG_MORE = 1;
  static final int FLAG_LONG = 2;
  static final int FLAG_COMMAND = 4;

  /** READY with two properties has 43 bytes; others may describe themselves more fully. */
  static final int MAX_COMMAND_BYTES = 8192;

  private static final int MAX_PING_CONTEXT = 16;
  private static final byte[] MECHANISM =
      Arrays.copyOf("NULL".getBytes(StandardCharsets.US_ASCII), 20);

  /** Which of the two socket types a connection's end is. */
  enum Role {
    ROUTER,
    DEALER;

    /** Whether a peer of that socket type can be talked to. */
    boolean fits(String type) {
      return switch (this) {
        case ROUTER -> type.equals("DEALER") || type.equals("REQ") || type.equals("ROUTER");
        // ZMTP would allow others, but a connect to a dead port may, by chance, reach itself.
        case DEALER -> type.equals("ROUTER");
      };
    }
  }

  /** What a command is. */
  enum Command {
    READY,
    ERROR,
    PING,
    PONG,
    /** One that does not concern us; passed over. */
    OTHER
  }

  private Zmtp() {}

  static byte[] greeting() {
    ByteBuffer out = ByteBuffer.allocate(GREETING_LENGTH);
    out.put((byte) 0xff).putLong(1).put((byte) 0x7f); // the signature: a frame head of old
    out.put((byte) 3).put((byte) 1);
    out.put(MECHANISM);
    return out.array(); // not a server, in the sense of mechanisms that have one; filler
  }

  /** Refuses a peer that we cannot talk to; the minor version of one that we can. */
  static int checkGreeting(byte[] greeting) throws ZmtpException {
    if (greeting[0] != (byte) 0xff || greeting[9] != (byte) 0x7f) {
      throw new ZmtpException("not a ZeroMQ peer");
    }
    if (greeting[10] < 3) {
      throw new ZmtpException("ZMTP version " + greeting[10] + " is too old, expected=3");
    }
    if (!Arrays.equals(greeting, 12, 32, MECHANISM, 0, 20)) {
      throw new ZmtpException("security mechanism is not NULL");
    }
    return greeting[10] == 3 ? greeting[11] : 1;
  }

  static byte[] ready(Role role) {
    return command("READY", property("Socket-Type", role.name()), property("Identity", ""));
  }

  private static byte[] property(String name, String value) {
    byte[] n = name.getBytes(StandardCharsets.US_ASCII);
    byte[] v = value.getBytes(StandardCharsets.US_ASCII);
    ByteBuffer out = ByteBuffer.allocate(1 + n.length + 4 + v.length);
    return out.put((byte) n.length).put(n).putInt(v.length).put(v).array();
  }

  /** Asks for a sign of life. Time to live 0: the peer need not give us up if we are slow. */
  static byte[] ping() {
    return command("PING", new byte[2]);
  }

  /** The answer to a PING. */
  static byte[] pong(byte[] ping) throws ZmtpException {
    int context = ping.length - "xPINGtt".length();
    if (context < 0) {
      throw new ZmtpException("malformed PING");
    }
    int echoed = Math.min(context, MAX_PING_CONTEXT);
    return command("PONG", Arrays.copyOfRange(ping, 7, 7 + echoed));
  }

  private static byte[] command(String name, byte[]... parts) {
    byte[] n = name.getBytes(StandardCharsets.US_ASCII);
    int length = 1 + n.length;
    for (byte[] part : parts) {
      length += part.length;
    }
    ByteBuffer out = ByteBuffer.allocate(2 + length);
    out.put((byte) FLAG_COMMAND).put((byte) length).put((byte) n.length).put(n);
    for (byte[] part : parts) {
      out.put(part);
    }
    return out.array();
  }

  static Command commandOf(byte[] body) throws ZmtpException {
    if (body.length == 0 || 1 + (body[0] & 0xff) > body.length) {
      throw new ZmtpException("malformed command");
    }
    String name = new String(body, 1, body[0] & 0xff, StandardCharsets.US_ASCII);
    return switch (name) {
      case "READY" -> Command.READY;
      case "ERROR" -> Command.ERROR;
      case "PING" -> Command.PING;
      case "PONG" -> Command.PONG;
      default -> Command.OTHER;
    };
  }

  /** Refuses a peer whose socket is none that ours talks to. */
  static void checkReady(byte[] body, Role ours) throws ZmtpException {
    ByteBuffer in = ByteBuffer.wrap(body, 6, body.length - 6);
    String type = "";
    while (in.hasRemaining()) {
      String name = text(in, in.get() & 0xff);
      String value = text(in, in.remaining() < 4 ? -1 : in.getInt());
      if (name.equalsIgnoreCase("Socket-Type")) {
        type = value;
      }
    }
    if (!ours.fits(type)) {
      throw new ZmtpException("socket type does not fit, ours=" + ours + ", theirs=" + shown(type));
    }
  }

  private static String text(ByteBuffer in, int length) throws ZmtpException {
    if (length < 0 || length > in.remaining()) {
      throw new ZmtpException("malformed READY");
    }
    byte[] bytes = new byte[length];
    in.get(bytes);
    return new String(bytes, StandardCharsets.ISO_8859_1);
  }

  /** What an ERROR command gives as its reason. */
  static String errorReason(byte[] body) {
    int length = body.length > 6 ? Math.min(body[6] & 0xff, body.length - 7) : 0;
    return shown(new String(body, Math.min(7, body.length), length, StandardCharsets.ISO_8859_1));
  }

  /** A peer's text as it may stand in a log: short, and without control characters. */
  private static String shown(String text) {
    String cut = text.length() > 64 ? text.substring(0, 64) + "…" : text;
    return cut.replaceAll("[^ -~…]", "?");
  }

  /** The head of a message's only frame. */
  static byte[] head(int length) {
    if (length <= 0xff) {
      return new byte[] {0, (byte) length};
    }
    return ByteBuffer.allocate(9).put((byte) FLAG_LONG).putLong(length).array();
  }
}
