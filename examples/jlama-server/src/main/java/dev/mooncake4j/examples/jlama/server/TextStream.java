package dev.mooncake4j.examples.jlama.server;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/** Text out of pieces of UTF-8 that may end within a character. */
final class TextStream {
  private static final int LONGEST_CHARACTER = 4;

  private final CharsetDecoder decoder =
      StandardCharsets.UTF_8
          .newDecoder()
          .onMalformedInput(CodingErrorAction.REPLACE)
          .onUnmappableCharacter(CodingErrorAction.REPLACE);
  private ByteBuffer left = ByteBuffer.allocate(0);

  /** The text that is whole with these bytes. */
  String add(byte[] bytes) {
    return decode(bytes, false);
  }

  /** What is left, with a replacement for a character that was never whole. */
  String end() {
    return decode(new byte[0], true);
  }

  private String decode(byte[] bytes, boolean last) {
    ByteBuffer in = ByteBuffer.allocate(left.remaining() + bytes.length);
    in.put(left).put(bytes).flip();
    CharBuffer out = CharBuffer.allocate(in.remaining() + LONGEST_CHARACTER);
    decoder.decode(in, out, last);
    if (last) {
      decoder.flush(out);
    }
    left = in;
    return out.flip().toString();
  }
}
