package dev.mooncake4j.core.wire;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A cursor over one MessagePack message that trusts no declared length: a string or a list that
 * claims more than the bytes that are left is malformed before anything is allocated for it.
 *
 * <p>Ours, since the messages are three and fixed, and lists of block ids are read straight into
 * {@code int} arrays.
 */
final class MessagePackReader {
  /** Deeper than any message of ours by far; keeps skipping from running out of stack. */
  private static final int MAX_DEPTH = 32;

  /** Room that a list gets at once; a longer one gets more as its elements turn out to be there. */
  private static final int FIRST_ROOM = 1_024;

  /** The same for the block ids of a prompt: those of most fit, and 64 KiB are lost at most. */
  private static final int FIRST_IDS = 16_384;

  /**
   * Numbers that are read in one call. A loop in short calls is compiled within the first requests
   * of a process; one of thousands of turns would be interpreted in all of them.
   */
  private static final int PIECE = 64;

  private final byte[] data;
  private int at;
  private String path = "";

  MessagePackReader(byte[] data) {
    this.data = data;
  }

  /** Names the field that is read next, for errors. */
  void field(String name) {
    path = name;
  }

  MalformedMessageException malformed(String problem) {
    return new MalformedMessageException(at, path, problem);
  }

  boolean atEnd() {
    return at == data.length;
  }

  int readMapHeader() throws MalformedMessageException {
    int tag = tag();
    if ((tag & 0xf0) == 0x80) {
      return count(tag & 0x0f, 2);
    }
    return switch (tag) {
      case 0xde -> count(u16(), 2);
      case 0xdf -> count(u32(), 2);
      default -> throw wrong("map", tag);
    };
  }

  int readArrayHeader() throws MalformedMessageException {
    int tag = tag();
    if ((tag & 0xf0) == 0x90) {
      return count(tag & 0x0f, 1);
    }
    return switch (tag) {
      case 0xdc -> count(u16(), 1);
      case 0xdd -> count(u32(), 1);
      default -> throw wrong("array", tag);
    };
  }

  /** Each element takes at least one byte: more of them than bytes left cannot be. */
  private int count(long declared, int bytesEach) throws MalformedMessageException {
    if (declared * bytesEach > data.length - at) {
      throw malformed("declared=" + declared + " elements but bytes_left=" + (data.length - at));
    }
    return (int) declared;
  }

  String readString() throws MalformedMessageException {
    return readString(CodingErrorAction.REPORT);
  }

  /** A field's name; one that is not UTF-8 is none that is known, and no fault. */
  String readName() throws MalformedMessageException {
    return readString(CodingErrorAction.REPLACE);
  }

  private String readString(CodingErrorAction notUtf8) throws MalformedMessageException {
    int tag = tag();
    long length;
    if ((tag & 0xe0) == 0xa0) {
      length = tag & 0x1f;
    } else {
      length =
          switch (tag) {
            case 0xd9 -> u8();
            case 0xda -> u16();
            case 0xdb -> u32();
            default -> throw wrong("string", tag);
          };
    }
    int from = skipBytes(length);
    // The short way, which also reads what is no UTF-8, and shows that by this character.
    String quick = new String(data, from, (int) length, StandardCharsets.UTF_8);
    if (quick.indexOf('\ufffd') < 0) {
      return quick;
    }
    try {
      return StandardCharsets.UTF_8
          .newDecoder()
          .onMalformedInput(notUtf8)
          .onUnmappableCharacter(notUtf8)
          .decode(ByteBuffer.wrap(data, from, (int) length))
          .toString();
    } catch (CharacterCodingException e) {
      throw malformed("string is not UTF-8");
    }
  }

  /** Whether a nil comes next; it is taken if so. */
  boolean readNil() throws MalformedMessageException {
    if (at < data.length && (data[at] & 0xff) == 0xc0) {
      at++;
      return true;
    }
    if (at >= data.length) {
      throw malformed("message ends early");
    }
    return false;
  }

  /** Any integer form as 64 bits; above 2^63 - 1 they are those of the unsigned number. */
  long readBits() throws MalformedMessageException {
    int tag = tag();
    if (tag <= 0x7f) {
      return tag;
    }
    if (tag >= 0xe0) {
      return (byte) tag;
    }
    return switch (tag) {
      case 0xcc -> u8();
      case 0xcd -> u16();
      case 0xce -> u32();
      case 0xcf, 0xd3 -> i64();
      case 0xd0 -> (byte) u8();
      case 0xd1 -> (short) u16();
      case 0xd2 -> (int) u32();
      default -> throw wrong("integer", tag);
    };
  }

  /** A signed number; an unsigned one of 2^63 or more is out of range. */
  long readLong() throws MalformedMessageException {
    boolean unsigned64 = at < data.length && (data[at] & 0xff) == 0xcf;
    long value = readBits();
    if (unsigned64 && value < 0) {
      throw malformed("value=" + Long.toUnsignedString(value) + " is 2^63 or more");
    }
    return value;
  }

  int readInt() throws MalformedMessageException {
    long value = readLong();
    if (value != (int) value) {
      throw malformed("value=" + value + " is outside 32 bits");
    }
    return (int) value;
  }

  boolean readBoolean() throws MalformedMessageException {
    int tag = tag();
    return switch (tag) {
      case 0xc2 -> false;
      case 0xc3 -> true;
      default -> throw wrong("boolean", tag);
    };
  }

  int[] readInts() throws MalformedMessageException {
    int n = readArrayHeader();
    int[] values = new int[Math.min(n, FIRST_IDS)];
    int i = 0;
    while (i < n) {
      if (i == values.length) {
        values = Arrays.copyOf(values, more(i, n));
      }
      int end = Math.min(values.length, i + PIECE);
      i = readIds(values, i, end);
      if (i < end) {
        values[i++] = readInt();
      }
    }
    return values;
  }

  /** Reads up to the end or what is not in a form of block ids, of which it returns the index. */
  private int readIds(int[] values, int first, int end) {
    byte[] from = data;
    int i = first;
    int p = at;
    while (i < end && p < from.length) {
      int tag = from[p];
      int left = from.length - p;
      if (tag >= 0) {
        values[i] = tag;
        p++;
      } else if (tag == (byte) 0xcd && left > 2) {
        values[i] = ((from[p + 1] & 0xff) << 8) | (from[p + 2] & 0xff);
        p += 3;
      } else if (tag == (byte) 0xce && left > 4 && from[p + 1] >= 0) {
        values[i] =
            (from[p + 1] << 24)
                | ((from[p + 2] & 0xff) << 16)
                | ((from[p + 3] & 0xff) << 8)
                | (from[p + 4] & 0xff);
        p += 5;
      } else if (tag == (byte) 0xcc && left > 1) {
        values[i] = from[p + 1] & 0xff;
        p += 2;
      } else {
        break;
      }
      i++;
    }
    at = p;
    return i;
  }

  long[] readLongs(boolean unsigned) throws MalformedMessageException {
    int n = readArrayHeader();
    long[] values = new long[Math.min(n, FIRST_ROOM)];
    for (int i = 0; i < n; i++) {
      if (i == values.length) {
        values = Arrays.copyOf(values, more(i, n));
      }
      values[i] = unsigned ? readBits() : readLong();
    }
    return values;
  }

  String[] readStrings() throws MalformedMessageException {
    int n = readArrayHeader();
    String[] values = new String[Math.min(n, FIRST_ROOM)];
    for (int i = 0; i < n; i++) {
      if (i == values.length) {
        values = Arrays.copyOf(values, more(i, n));
      }
      values[i] = readString();
    }
    return values;
  }

  int[][] readIntLists() throws MalformedMessageException {
    int n = readArrayHeader();
    int[][] lists = new int[Math.min(n, FIRST_ROOM)][];
    for (int i = 0; i < n; i++) {
      if (i == lists.length) {
        lists = Arrays.copyOf(lists, more(i, n));
      }
      lists[i] = readInts();
    }
    return lists;
  }

  /** Twice the room, but not more than was declared. */
  private static int more(int room, int declared) {
    return (int) Math.min(declared, 2L * room);
  }

  /** Passes over one value of any kind. */
  void skip() throws MalformedMessageException {
    skip(0);
  }

  private void skip(int depth) throws MalformedMessageException {
    if (depth > MAX_DEPTH) {
      throw malformed("nested deeper than " + MAX_DEPTH);
    }
    int tag = tag();
    if (tag <= 0x7f || tag >= 0xe0) {
      return;
    }
    if ((tag & 0xf0) == 0x80) {
      skipAll(2L * (tag & 0x0f), depth);
    } else if ((tag & 0xf0) == 0x90) {
      skipAll(tag & 0x0f, depth);
    } else if ((tag & 0xe0) == 0xa0) {
      skipBytes(tag & 0x1f);
    } else {
      skipLong(tag, depth);
    }
  }

  private void skipLong(int tag, int depth) throws MalformedMessageException {
    switch (tag) {
      case 0xc0, 0xc2, 0xc3 -> {}
      case 0xc4, 0xd9 -> skipBytes(u8());
      case 0xc5, 0xda -> skipBytes(u16());
      case 0xc6, 0xdb -> skipBytes(u32());
      case 0xc7 -> skipBytes(u8() + 1L);
      case 0xc8 -> skipBytes(u16() + 1L);
      case 0xc9 -> skipBytes(u32() + 1L);
      case 0xcc, 0xd0 -> skipBytes(1);
      case 0xcd, 0xd1, 0xd4 -> skipBytes(2);
      case 0xd5 -> skipBytes(3);
      case 0xca, 0xce, 0xd2 -> skipBytes(4);
      case 0xd6 -> skipBytes(5);
      case 0xcb, 0xcf, 0xd3 -> skipBytes(8);
      case 0xd7 -> skipBytes(9);
      case 0xd8 -> skipBytes(17);
      case 0xdc -> skipAll(u16(), depth);
      case 0xdd -> skipAll(u32(), depth);
      case 0xde -> skipAll(2L * u16(), depth);
      case 0xdf -> skipAll(2L * u32(), depth);
      default -> throw wrong("value", tag);
    }
  }

  private void skipAll(long values, int depth) throws MalformedMessageException {
    if (values > data.length - at) {
      throw malformed("declared=" + values + " values but bytes_left=" + (data.length - at));
    }
    for (long i = 0; i < values; i++) {
      skip(depth + 1);
    }
  }

  private int skipBytes(long n) throws MalformedMessageException {
    if (n > data.length - at) {
      throw malformed("length=" + n + " but bytes_left=" + (data.length - at));
    }
    int from = at;
    at += (int) n;
    return from;
  }

  private MalformedMessageException wrong(String expected, int tag) {
    at--;
    return malformed("expected " + expected + ", got tag=0x" + Integer.toHexString(tag));
  }

  private int tag() throws MalformedMessageException {
    if (at >= data.length) {
      throw malformed("message ends early");
    }
    return data[at++] & 0xff;
  }

  private int u8() throws MalformedMessageException {
    return data[skipBytes(1)] & 0xff;
  }

  private int u16() throws MalformedMessageException {
    int from = skipBytes(2);
    return ((data[from] & 0xff) << 8) | (data[from + 1] & 0xff);
  }

  private long u32() throws MalformedMessageException {
    int from = skipBytes(4);
    return ((data[from] & 0xffL) << 24)
        | ((data[from + 1] & 0xffL) << 16)
        | ((data[from + 2] & 0xffL) << 8)
        | (data[from + 3] & 0xffL);
  }

  private long i64() throws MalformedMessageException {
    return (u32() << 32) | u32();
  }
}
