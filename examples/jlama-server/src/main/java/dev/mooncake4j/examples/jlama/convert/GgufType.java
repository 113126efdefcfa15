package dev.mooncake4j.examples.jlama.convert;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** How the numbers of a tensor are kept in a GGUF file; those types that the model here has. */
enum GgufType {
  /** Single floats. */
  F32(0, 1, 4) {
    @Override
    void decode(MemorySegment row, float[] out) {
      for (int i = 0; i < out.length; i++) {
        out[i] = row.get(FLOAT, i * 4L);
      }
    }
  },
  /** 32 numbers of four bits, times a scale, plus a minimum. */
  Q4_1(3, 32, 20) {
    @Override
    void decode(MemorySegment row, float[] out) {
      for (int block = 0; block < out.length / 32; block++) {
        long at = block * 20L;
        float scale = Float.float16ToFloat(row.get(SHORT, at));
        float minimum = Float.float16ToFloat(row.get(SHORT, at + 2));
        for (int i = 0; i < 16; i++) {
          int two = Byte.toUnsignedInt(row.get(ValueLayout.JAVA_BYTE, at + 4 + i));
          out[block * 32 + i] = scale * (two & 15) + minimum;
          out[block * 32 + 16 + i] = scale * (two >> 4) + minimum;
        }
      }
    }
  },
  /** 32 numbers of eight bits, times a scale. */
  Q8_0(8, 32, 34) {
    @Override
    void decode(MemorySegment row, float[] out) {
      for (int block = 0; block < out.length / 32; block++) {
        long at = block * 34L;
        float scale = Float.float16ToFloat(row.get(SHORT, at));
        for (int i = 0; i < 32; i++) {
          out[block * 32 + i] = scale * row.get(ValueLayout.JAVA_BYTE, at + 2 + i);
        }
      }
    }
  };

  private static final ValueLayout.OfShort SHORT =
      ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfFloat FLOAT =
      ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  private final int code;
  private final int blockElements;
  private final int blockBytes;

  GgufType(int code, int blockElements, int blockBytes) {
    this.code = code;
    this.blockElements = blockElements;
    this.blockBytes = blockBytes;
  }

  static GgufType of(int code, String tensor) throws IOException {
    for (GgufType type : values()) {
      if (type.code == code) {
        return type;
      }
    }
    throw new IOException(
        "tensor=" + tensor + " has type=" + code + ", which is not converted here");
  }

  int blockElements() {
    return blockElements;
  }

  long rowBytes(int columns) {
    return (long) columns / blockElements * blockBytes;
  }

  /** One row, of {@code out.length} numbers. */
  abstract void decode(MemorySegment row, float[] out);
}
