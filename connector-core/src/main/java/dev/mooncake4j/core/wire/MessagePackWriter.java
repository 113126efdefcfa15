package dev.mooncake4j.core.wire;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** Writes MessagePack in the shortest forms, as vLLM's encoder does. */
final class MessagePackWriter {
  private byte[] data = new byte[256];
  private int size;

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
