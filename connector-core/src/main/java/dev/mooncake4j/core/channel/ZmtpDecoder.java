package dev.mooncake4j.core.channel;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Takes a peer's stream apart: the greeting, then commands and messages, however the bytes come in.
 *
 * <p>Holds at most about twice the bytes that have come, never what a frame's head only promises.
 * Of a message of several frames, which this side channel does not have, only the count is kept.
 */
final class ZmtpDecoder {
  private static final int FIRST_PIECE = 65_536;

  /** Where the pieces go. */
  interface Sink {
    void greeting(byte[] greeting) throws ZmtpException;

    void command(byte[] body) throws ZmtpException;

    /** A message of one frame. */
    void message(byte[] body) throws ZmtpException;

    /** A message of more. */
    void multipart(int frames) throws ZmtpException;
  }

  private enum State {
    GREETING,
    HEAD,
    BODY
  }

  private final int maxMessageBytes;
  private State state = State.GREETING;

  /** The greeting or a frame's head, as far as it has come. */
  private final byte[] head = new byte[Zmtp.GREETING_LENGTH];

  private int headLength;

  private byte[] body = {};
  private int bodyLength;
  private int bodyWanted;
  private boolean keep;
  private boolean command;
  private boolean more;

  /** Frames of the message under way that are complete. */
  private int frames;

  ZmtpDecoder(int maxMessageBytes) {
    this.maxMessageBytes = maxMessageBytes;
  }

  /** Takes all that the buffer has. After an exception the decoder is of no more use. */
  void decode(ByteBuffer in, Sink sink) throws ZmtpException {
    while (true) {
      switch (state) {
        case GREETING -> {
          if (!fillHead(in, Zmtp.GREETING_LENGTH)) {
            // Whoever does not speak ZMTP is told so by the first byte already.
            if (headLength > 0 && head[0] != (byte) 0xff) {
              throw new ZmtpException("not a ZeroMQ peer");
            }
            return;
          }
          sink.greeting(head.clone());
          startHead();
        }
        case HEAD -> {
          if (!fillHead(in, 2)) {
            return;
          }
          boolean isLong = (head[0] & Zmtp.FLAG_LONG) != 0;
          if (isLong && !fillHead(in, 9)) {
            return;
          }
          startBody(isLong ? ByteBuffer.wrap(head, 1, 8).getLong() : head[1] & 0xff);
        }
        case BODY -> {
          if (!fillBody(in)) {
            return;
          }
          startHead();
          emit(sink);
        }
      }
    }
  }

  private void startHead() {
    state = State.HEAD;
    headLength = 0;
  }

  private boolean fillHead(ByteBuffer in, int wanted) {
    int n = Math.min(wanted - headLength, in.remaining());
    if (n > 0) {
      in.get(head, headLength, n);
      headLength += n;
    }
    return headLength >= wanted;
  }

  private void startBody(long length) throws ZmtpException {
    int flags = head[0];
    command = (flags & Zmtp.FLAG_COMMAND) != 0;
    more = (flags & Zmtp.FLAG_MORE) != 0;
    if ((flags & ~(Zmtp.FLAG_MORE | Zmtp.FLAG_LONG | Zmtp.FLAG_COMMAND)) != 0
        || (command && more)) {
      throw new ZmtpException("malformed frame, flags=0x" + Integer.toHexString(flags & 0xff));
    }
    int limit = command ? Zmtp.MAX_COMMAND_BYTES : maxMessageBytes;
    if (length < 0 || length > limit) {
      throw new ZmtpException(
          "frame too large, bytes=" + Long.toUnsignedString(length) + ", limit_bytes=" + limit);
    }
    keep = command || (frames == 0 && !more);
    bodyWanted = (int) length;
    bodyLength = 0;
    body = new byte[keep ? Math.min(bodyWanted, FIRST_PIECE) : 0];
    state = State.BODY;
  }

  private boolean fillBody(ByteBuffer in) {
    int n = Math.min(bodyWanted - bodyLength, in.remaining());
    if (keep) {
      if (bodyLength + n > body.length) {
        long twice = Math.max(2L * body.length, bodyLength + n);
        body = Arrays.copyOf(body, (int) Math.min(twice, bodyWanted));
      }
      in.get(body, bodyLength, n);
    } else {
      in.position(in.position() + n);
    }
    bodyLength += n;
    return bodyLength == bodyWanted;
  }

  private void emit(Sink sink) throws ZmtpException {
    byte[] complete = body;
    body = new byte[0];
    if (command) {
      sink.command(complete);
      return;
    }
    frames = Math.min(frames, Integer.MAX_VALUE - 1) + 1;
    if (!more) {
      int count = frames;
      frames = 0;
      if (count == 1) {
        sink.message(complete);
      } else {
        sink.multipart(count);
      }
    }
  }
}
