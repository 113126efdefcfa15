package dev.mooncake4j.core.channel;

import dev.mooncake4j.connector.SharedSecret;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;

/**
 * ZMTP 3.1 as bytes: the greeting, the commands of the NULL and PLAIN mechanisms, heartbeats, frame
 * heads. Source: ZeroMQ RFC 37 and 24, and the recorded handshake of vLLM's libzmq.
 */
final class Zmtp {
  static final int GREETING_LENGTH = 64;

  static final int FLAG_MORE = 1;
  static final int FLAG_LONG = 2;
  static final int FLAG_COMMAND = 4;

  /** READY with two properties has 43 bytes; others may describe themselves more fully. */
  static final int MAX_COMMAND_BYTES = 8192;

  private static final int MAX_PING_CONTEXT = 16;
  static final int MAX_SHOWN = 64;

  static final String NULL = "NULL";
  static final String PLAIN = "PLAIN";

  private static final int MECHANISM_AT = 12;
  private static final int MECHANISM_LENGTH = 20;

  /** PLAIN has a name beside the password; ours is the same everywhere. */
  static final String USER = "mooncake4j";

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
    HELLO,
    WELCOME,
    INITIATE,
    READY,
    ERROR,
    PING,
    PONG,
    /** One that does not concern us; passed over. */
    OTHER
  }

  private Zmtp() {}

  /**
   * What each side says first.
   *
   * @param plain whether the mechanism is PLAIN, else NULL
   * @param server whether this side is the one that is asked for admission
   */
  static byte[] greeting(boolean plain, boolean server) {
    ByteBuffer out = ByteBuffer.allocate(GREETING_LENGTH);
    out.put((byte) 0xff).putLong(1).put((byte) 0x7f); // the signature: a frame head of old
    out.put((byte) 3).put((byte) 1);
    byte[] mechanism = (plain ? PLAIN : NULL).getBytes(StandardCharsets.US_ASCII);
    out.put(Arrays.copyOf(mechanism, MECHANISM_LENGTH));
    out.put((byte) (server ? 1 : 0));
    return out.array(); // and filler
  }

  /** Refuses a peer that we cannot talk to; the minor version of one that we can. */
  static int checkGreeting(byte[] greeting) throws ZmtpException {
    if (greeting[0] != (byte) 0xff || greeting[9] != (byte) 0x7f) {
      throw new ZmtpException("not a ZeroMQ peer");
    }
    if (greeting[10] < 3) {
      throw new ZmtpException("ZMTP version " + greeting[10] + " is too old, expected=3");
    }
    return greeting[10] == 3 ? greeting[11] : 1;
  }

  /** The security mechanism that a greeting names, as it may stand in a log. */
  static String mechanism(byte[] greeting) {
    int end = MECHANISM_AT + MECHANISM_LENGTH;
    while (end > MECHANISM_AT && greeting[end - 1] == 0) {
      end--;
    }
    return shown(
        new String(greeting, MECHANISM_AT, end - MECHANISM_AT, StandardCharsets.ISO_8859_1));
  }

  /** PLAIN's first command: who asks for admission, and the password. */
  static byte[] hello(SharedSecret secret) {
    return command(
        "HELLO", shortText(USER.getBytes(StandardCharsets.US_ASCII)), shortText(secret.reveal()));
  }

  private static byte[] shortText(byte[] text) {
    return ByteBuffer.allocate(1 + text.length).put((byte) text.length).put(text).array();
  }

  /** Whether a HELLO has our name and the secret; both are looked at whatever the first is. */
  static boolean isHello(byte[] body, SharedSecret secret) throws ZmtpException {
    ByteBuffer in = ByteBuffer.wrap(body, 6, body.length - 6);
    byte[] user = shortText(in);
    byte[] password = shortText(in);
    if (in.hasRemaining()) {
      throw new ZmtpException("malformed HELLO");
    }
    boolean known = MessageDigest.isEqual(user, USER.getBytes(StandardCharsets.US_ASCII));
    boolean right = secret.matches(password);
    return known && right;
  }

  private static byte[] shortText(ByteBuffer in) throws ZmtpException {
    int length = in.hasRemaining() ? in.get() & 0xff : -1;
    if (length < 0 || length > in.remaining()) {
      throw new ZmtpException("malformed HELLO");
    }
    byte[] text = new byte[length];
    in.get(text);
    return text;
  }

  /** PLAIN's answer to a HELLO that is right. */
  static byte[] welcome() {
    return command("WELCOME");
  }

  /** PLAIN's answer to a WELCOME. */
  static byte[] initiate(Role role) {
    return command("INITIATE", metadata(role));
  }

  /** Tells a peer why it is not let in; at most 255 printable characters. */
  static byte[] error(String reason) {
    return command("ERROR", shortText(reason.getBytes(StandardCharsets.US_ASCII)));
  }

  static byte[] ready(Role role) {
    return command("READY", metadata(role));
  }

  private static byte[][] metadata(Role role) {
    return new byte[][] {property("Socket-Type", role.name()), property("Identity", "")};
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
      case "HELLO" -> Command.HELLO;
      case "WELCOME" -> Command.WELCOME;
      case "INITIATE" -> Command.INITIATE;
      case "READY" -> Command.READY;
      case "ERROR" -> Command.ERROR;
      case "PING" -> Command.PING;
      case "PONG" -> Command.PONG;
      default -> Command.OTHER;
    };
  }

  /** Refuses a peer whose socket is none that ours talks to. */
  static void checkMetadata(byte[] body, Role ours) throws ZmtpException {
    int name = 1 + (body[0] & 0xff);
    ByteBuffer in = ByteBuffer.wrap(body, name, body.length - name);
    String type = "";
    while (in.hasRemaining()) {
      String property = text(in, in.get() & 0xff);
      String value = text(in, in.remaining() < 4 ? -1 : in.getInt());
      if (property.equalsIgnoreCase("Socket-Type")) {
        type = value;
      }
    }
    if (!ours.fits(type)) {
      throw new ZmtpException("socket type does not fit, ours=" + ours + ", theirs=" + shown(type));
    }
  }

  private static String text(ByteBuffer in, int length) throws ZmtpException {
    if (length < 0 || length > in.remaining()) {
      throw new ZmtpException("malformed metadata");
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
    String cut = text.length() > MAX_SHOWN ? text.substring(0, MAX_SHOWN) + "…" : text;
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
