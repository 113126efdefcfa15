package dev.mooncake4j.core.channel;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/**
 * What waits to be sent to one peer: handshake and heartbeats, and messages. The former go first,
 * between messages; the latter wait until the handshake is done.
 */
final class ZmtpOutQueue {
  /** Bytes written in one go, so that one fast peer does not hold the others up. */
  private static final int SHARE_BYTES = 1 << 20;

  private final int maxMessages;
  private final int maxBytes;
  private final ArrayDeque<byte[]> control = new ArrayDeque<>();
  private final ArrayDeque<byte[]> messages = new ArrayDeque<>();
  private long messageBytes;

  /** The answer to the peer's last PING; one that asks faster than it reads gets fewer. */
  private byte @Nullable [] pong;

  /** Being written: a head and a body, or a control frame alone. */
  private byte[] first = {};

  private byte[] second = {};
  private int written;

  /** Taken from the queue, but not by the socket. */
  private byte[] leftover = {};

  ZmtpOutQueue(int maxMessages, int maxBytes) {
    this.maxMessages = maxMessages;
    this.maxBytes = maxBytes;
  }

  /** Queues a message, if there is room. */
  boolean offer(byte[] payload) {
    if (messages.size() >= maxMessages
        || (!messages.isEmpty() && messageBytes + payload.length > maxBytes)) {
      return false;
    }
    messages.add(payload);
    messageBytes += payload.length;
    return true;
  }

  /** Queues handshake bytes or a command. */
  void control(byte[] frame) {
    control.add(frame);
  }

  /** Queues the answer to a PING, in the place of one that is still waiting. */
  void pong(byte[] frame) {
    pong = frame;
  }

  /**
   * Writes what the channel takes.
   *
   * @param withMessages whether the handshake is done
   * @param staging scratch space; its content does not matter before or after
   * @return whether all that may be written was
   */
  boolean flush(WritableByteChannel to, boolean withMessages, ByteBuffer staging)
      throws IOException {
    for (int share = 0; share < SHARE_BYTES; ) {
      staging.clear();
      staging.put(leftover); // fits: it came from there
      leftover = new byte[0];
      fill(staging, withMessages);
      staging.flip();
      if (!staging.hasRemaining()) {
        return true;
      }
      share += to.write(staging);
      if (staging.hasRemaining()) {
        leftover = new byte[staging.remaining()];
        staging.get(leftover);
        return false;
      }
    }
    return false;
  }

  private void fill(ByteBuffer staging, boolean withMessages) {
    while (staging.hasRemaining()) {
      if (written == first.length + second.length && !next(withMessages)) {
        return;
      }
      put(staging, first, 0);
      put(staging, second, first.length);
    }
  }

  private void put(ByteBuffer staging, byte[] part, int at) {
    int from = written - at;
    if (from >= 0 && from < part.length) {
      int n = Math.min(part.length - from, staging.remaining());
      staging.put(part, from, n);
      written += n;
    }
  }

  private boolean next(boolean withMessages) {
    written = 0;
    first = new byte[0];
    second = new byte[0];
    byte[] frame = control.poll();
    if (frame == null) {
      frame = pong;
      pong = null;
    }
    if (frame != null) {
      first = frame;
      return true;
    }
    byte[] payload = withMessages ? messages.poll() : null;
    if (payload == null) {
      return false;
    }
    messageBytes -= payload.length;
    first = Zmtp.head(payload.length);
    second = payload;
    return true;
  }
}
