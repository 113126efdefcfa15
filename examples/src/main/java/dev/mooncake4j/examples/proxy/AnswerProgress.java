package dev.mooncake4j.examples.proxy;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * How much of an answer the client has been given, and whether that is all of it.
 *
 * <p>A client may close its connection as soon as it has what it asked for, which is before the
 * decoder's connection is read to its end: such an answer is complete, and nobody broke off.
 */
final class AnswerProgress {
  /** What OpenAI's streams end with; clients read no further. */
  private static final byte[] DONE = "data: [DONE]\n\n".getBytes(StandardCharsets.UTF_8);

  private final long length;
  private final boolean events;
  private byte[] tail = new byte[0];
  private long bytes;
  private boolean ended;

  /**
   * Nothing is written yet.
   *
   * @param length of the body, or -1 where it is not known
   * @param events whether it is a stream of events
   */
  AnswerProgress(long length, boolean events) {
    this.length = length;
    this.events = events;
  }

  /** The client's connection has taken these. */
  void wrote(byte[] piece, int count) {
    bytes += count;
    if (events) {
      byte[] both = Arrays.copyOf(tail, tail.length + count);
      System.arraycopy(piece, 0, both, tail.length, count);
      tail = Arrays.copyOfRange(both, Math.max(0, both.length - DONE.length), both.length);
    }
  }

  /** The decoder has ended its answer, and all of it was written. */
  void upstreamEnded() {
    ended = true;
  }

  long bytes() {
    return bytes;
  }

  boolean isComplete() {
    return ended || bytes == length || (events && Arrays.equals(tail, DONE));
  }
}
