package dev.mooncake4j.core.wire;

import dev.mooncake4j.connector.BlockIds;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** Writes MessagePack in the shortest forms, as vLLM's encoder does. */
final class MessagePackWriter {
  /** Of a number of 0 to 2^31 - 1. */
  private static final int MAX_ID_BYTES = 5;

  /**
   * Block ids that are written in one call. A loop in short calls is compiled within the first
   * requests of a process; one of thousands of turns would be interpreted in all of them.
   */
  private static final int PIECE = 64;

  private byte[] data;
  private int size;

  MessagePackWriter() {
    this(256);
  }

  private MessagePackWriter(int room) {
    data = new byte[room];
  }

  /** With room for so many block ids of the usual size: it need not grow for them. */
  static MessagePackWriter forBlockIds(long ids) {
    return new MessagePackWriter((int) Math.min(1 << 20, 512 + MAX_ID_BYTES * PIECE + 3 * ids));
  }

  byte[] toBytes() {
    return Arrays.copyOf(data, size);
  }

  void mapHeader(int n) {
    header(n, 0x80, 0xde);
  }

  void arrayHeader(int n) {
    header(n, 0x90, 0xdc);
  }

  private void header(int n, int fix, int long16) {
    if (n < 16) {
      put1(fix | n);
    } else if (n < 1 << 16) {
      put1(long16);
      put(n, 2);
    } else {
      put1(long16 + 1);
      put(n, 4);
    }
  }

  void string(String value) {
    byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
    int n = bytes.length;
    if (n < 32) {
      put1(0xa0 | n);
    } else if (n < 1 << 8) {
      put1(0xd9);
      put(n, 1);
    } else if (n < 1 << 16) {
      put1(0xda);
      put(n, 2);
    } else {
      put1(0xdb);
      put(n, 4);
    }
    room(n);
    System.arraycopy(bytes, 0, data, size, n);
    size += n;
  }

  void nil() {
    put1(0xc0);
  }

  void bool(boolean value) {
    put1(value ? 0xc3 : 0xc2);
  }

  /** A signed number. */
  void integer(long value) {
    if (value >= 0) {
      unsigned(value);
    } else if (value >= -32) {
      put1((int) value & 0xff);
    } else if (value >= Byte.MIN_VALUE) {
      put1(0xd0);
      put(value, 1);
    } else if (value >= Short.MIN_VALUE) {
      put1(0xd1);
      put(value, 2);
    } else if (value >= Integer.MIN_VALUE) {
      put1(0xd2);
      put(value, 4);
    } else {
      put1(0xd3);
      put(value, 8);
    }
  }

  /** A number of 64 unsigned bits. */
  void unsigned(long bits) {
    if (bits >= 0 && bits < 1 << 7) {
      put1((int) bits);
    } else if (bits >= 0 && bits < 1 << 8) {
      put1(0xcc);
      put(bits, 1);
    } else if (bits >= 0 && bits < 1 << 16) {
      put1(0xcd);
      put(bits, 2);
    } else if (bits >= 0 && bits < 1L << 32) {
      put1(0xce);
      put(bits, 4);
    } else {
      put1(0xcf);
      put(bits, 8);
    }
  }

  void integers(int[] values) {
    arrayHeader(values.length);
    putAll(values, values.length);
  }

  /** The list of a group's ids, which are thousands. */
  void blockIds(BlockIds blocks, int group) {
    int n = blocks.size(group);
    arrayHeader(n);
    int[] piece = new int[Math.min(n, PIECE)];
    for (int from = 0; from < n; from += PIECE) {
      int count = Math.min(n - from, PIECE);
      blocks.copyTo(group, from, piece, 0, count);
      putAll(piece, count);
    }
  }

  private void putAll(int[] values, int end) {
    int i = 0;
    while (i < end) {
      room(MAX_ID_BYTES * (end - i));
      i = putIds(values, i, end);
      if (i < end) {
        integer(values[i++]);
      }
    }
  }

  /** Writes on up to the end or a number below 0, of which it returns the index. There is room. */
  private int putIds(int[] values, int first, int end) {
    byte[] out = data;
    int at = size;
    int i = first;
    for (; i < end; i++) {
      int value = values[i];
      if (value < 0) {
        break;
      }
      if (value < 1 << 7) {
        out[at++] = (byte) value;
      } else if (value < 1 << 8) {
        out[at] = (byte) 0xcc;
        out[at + 1] = (byte) value;
        at += 2;
      } else if (value < 1 << 16) {
        out[at] = (byte) 0xcd;
        out[at + 1] = (byte) (value >>> 8);
        out[at + 2] = (byte) value;
        at += 3;
      } else {
        out[at] = (byte) 0xce;
        out[at + 1] = (byte) (value >>> 24);
        out[at + 2] = (byte) (value >>> 16);
        out[at + 3] = (byte) (value >>> 8);
        out[at + 4] = (byte) value;
        at += 5;
      }
    }
    size = at;
    return i;
  }

  void strings(List<String> values) {
    arrayHeader(values.size());
    for (String value : values) {
      string(value);
    }
  }

  private void put1(int b) {
    room(1);
    data[size++] = (byte) b;
  }

  private void put(long value, int bytes) {
    room(bytes);
    for (int i = bytes - 1; i >= 0; i--) {
      data[size++] = (byte) (value >>> (8 * i));
    }
  }

  private void room(int n) {
    if (data.length - size < n) {
      data = Arrays.copyOf(data, Math.max(data.length * 2, size + n));
    }
  }
}
