package dev.mooncake4j.examples.jlama.convert;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Writes GGUF files for tests. */
final class TinyGguf {
  private final List<byte[]> keys = new ArrayList<>();
  private final List<byte[]> infos = new ArrayList<>();
  private final ByteArrayOutputStream data = new ByteArrayOutputStream();

  TinyGguf text(String key, String value) {
    keys.add(join(text(key), ints(8), text(value)));
    return this;
  }

  TinyGguf integer(String key, int value) {
    keys.add(join(text(key), ints(4, value)));
    return this;
  }

  TinyGguf decimal(String key, float value) {
    keys.add(join(text(key), ints(6, Float.floatToRawIntBits(value))));
    return this;
  }

  TinyGguf texts(String key, String... values) {
    byte[][] parts = new byte[values.length][];
    for (int i = 0; i < values.length; i++) {
      parts[i] = text(values[i]);
    }
    keys.add(join(text(key), ints(9, 8), longs(values.length), join(parts)));
    return this;
  }

  TinyGguf integers(String key, int... values) {
    keys.add(join(text(key), ints(9, 5), longs(values.length), ints(values)));
    return this;
  }

  /** A tensor; the sizes innermost first, as in the file. */
  TinyGguf tensor(String name, int type, byte[] bytes, long... sizes) {
    while (data.size() % 32 != 0) {
      data.write(0);
    }
    infos.add(join(text(name), ints(sizes.length), longs(sizes), ints(type), longs(data.size())));
    data.writeBytes(bytes);
    return this;
  }

  byte[] bytes() {
    byte[] head =
        join(
            ints(0x46554747, 3),
            longs(infos.size(), keys.size()),
            join(keys.toArray(byte[][]::new)),
            join(infos.toArray(byte[][]::new)));
    byte[] padding = new byte[Math.ceilDiv(head.length, 32) * 32 - head.length];
    return join(head, padding, data.toByteArray());
  }

  static byte[] floats(float... values) {
    byte[] bytes = new byte[values.length * 4];
    ByteBuffer buffer = buffer(bytes);
    for (float value : values) {
      buffer.putFloat(value);
    }
    return bytes;
  }

  /** A block of 32 numbers of four bits: the i-th is {@code i % 16}. */
  static byte[] q41(float scale, float minimum) {
    byte[] bytes = new byte[20];
    ByteBuffer buffer = buffer(bytes);
    buffer.putShort(Float.floatToFloat16(scale)).putShort(Float.floatToFloat16(minimum));
    for (int i = 0; i < 16; i++) {
      buffer.put((byte) (i | i << 4));
    }
    return bytes;
  }

  /** A block of 32 numbers of eight bits: the i-th is {@code i - 16}. */
  static byte[] q80(float scale) {
    byte[] bytes = new byte[34];
    ByteBuffer buffer = buffer(bytes);
    buffer.putShort(Float.floatToFloat16(scale));
    for (int i = 0; i < 32; i++) {
      buffer.put((byte) (i - 16));
    }
    return bytes;
  }

  static byte[] join(byte[]... parts) {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    for (byte[] part : parts) {
      all.writeBytes(part);
    }
    return all.toByteArray();
  }

  private static byte[] text(String text) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    return join(longs(utf8.length), utf8);
  }

  private static byte[] ints(int... values) {
    byte[] bytes = new byte[values.length * 4];
    ByteBuffer buffer = buffer(bytes);
    for (int value : values) {
      buffer.putInt(value);
    }
    return bytes;
  }

  private static byte[] longs(long... values) {
    byte[] bytes = new byte[values.length * 8];
    ByteBuffer buffer = buffer(bytes);
    for (long value : values) {
      buffer.putLong(value);
    }
    return bytes;
  }

  private static ByteBuffer buffer(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }
}
