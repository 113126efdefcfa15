package dev.mooncake4j.examples.jlama.convert;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** A GGUF file of version 2 or 3, mapped: its metadata, and where its tensors lie. */
final class GgufFile implements AutoCloseable {
  private static final int MAGIC = 0x46554747; // "GGUF"
  private static final int DEFAULT_ALIGNMENT = 32;
  private static final int MAX_DIMENSIONS = 4;

  private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;
  private static final ValueLayout.OfShort SHORT =
      ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfInt INT =
      ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfLong LONG =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfFloat FLOAT =
      ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfDouble DOUBLE =
      ValueLayout.JAVA_DOUBLE_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  private final Path path;
  private final Arena arena = Arena.ofShared();
  private final Map<String, Object> metadata = new LinkedHashMap<>();
  private final Map<String, Tensor> tensors = new LinkedHashMap<>();
  private final MemorySegment file;
  private long position;

  /**
   * One tensor.
   *
   * @param rows all dimensions but the innermost one, multiplied
   * @param columns the innermost dimension
   * @param shape outermost dimension first, as everywhere but in a GGUF file
   * @param data the bytes of all rows
   */
  record Tensor(
      String name, GgufType type, int rows, int columns, List<Integer> shape, MemorySegment data) {}

  private GgufFile(Path path) throws IOException {
    this.path = path;
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      this.file = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
    } catch (IOException | RuntimeException e) {
      arena.close();
      throw e;
    }
  }

  /**
   * Maps and reads a file.
   *
   * @throws IOException if it cannot be read, or is no such file, or is cut short
   */
  static GgufFile open(Path path) throws IOException {
    GgufFile gguf = new GgufFile(path);
    try {
      gguf.read();
      return gguf;
    } catch (IndexOutOfBoundsException | ArithmeticException | IOException e) {
      gguf.close();
      throw new IOException(
          "file="
              + path
              + " cannot be read as GGUF: "
              + (e instanceof IOException ? e.getMessage() : "it is cut short or damaged")
              + "; fetch it again",
          e);
    }
  }

  private void read() throws IOException {
    if (file.byteSize() < 24 || readInt() != MAGIC) {
      throw new IOException("it does not begin with GGUF");
    }
    int version = readInt();
    if (version != 2 && version != 3) {
      throw new IOException("version=" + version + " is not 2 or 3");
    }
    long tensorCount = readLong();
    long keyCount = readLong();
    for (long i = 0; i < keyCount; i++) {
      String key = readText();
      metadata.put(key, readValue(readInt()));
    }
    List<Tensor> described = new ArrayList<>();
    List<Long> offsets = new ArrayList<>();
    for (long i = 0; i < tensorCount; i++) {
      describeTensor(described, offsets);
    }
    long alignment =
        metadata.get("general.alignment") instanceof Number n ? n.longValue() : DEFAULT_ALIGNMENT;
    if (alignment < 1) {
      throw new IOException("general.alignment=" + alignment + " is less than 1");
    }
    long base = Math.ceilDiv(position, alignment) * alignment;
    for (int i = 0; i < described.size(); i++) {
      Tensor t = described.get(i);
      long bytes = Math.multiplyExact((long) t.rows(), t.type().rowBytes(t.columns()));
      MemorySegment data = file.asSlice(Math.addExact(base, offsets.get(i)), bytes);
      tensors.put(t.name(), new Tensor(t.name(), t.type(), t.rows(), t.columns(), t.shape(), data));
    }
  }

  private void describeTensor(List<Tensor> described, List<Long> offsets) throws IOException {
    String name = readText();
    int dimensions = readInt();
    if (dimensions < 1 || dimensions > MAX_DIMENSIONS) {
      throw new IOException("tensor=" + name + " has dimensions=" + dimensions);
    }
    List<Integer> shape = new ArrayList<>();
    for (int d = 0; d < dimensions; d++) {
      shape.addFirst(Math.toIntExact(readLong()));
    }
    int columns = shape.getLast();
    int rows = 1;
    for (int size : shape.subList(0, dimensions - 1)) {
      rows = Math.multiplyExact(rows, size);
    }
    GgufType type = GgufType.of(readInt(), name);
    if (rows < 1 || columns < 1 || columns % type.blockElements() != 0) {
      throw new IOException("tensor=" + name + " of type=" + type + " has shape=" + shape);
    }
    described.add(new Tensor(name, type, rows, columns, List.copyOf(shape), MemorySegment.NULL));
    offsets.add(readLong());
  }

  /** The types are those of the format's enum, in its order. */
  private Object readValue(int type) throws IOException {
    return switch (type) {
      case 0 -> (long) Byte.toUnsignedInt(readByte());
      case 1 -> (long) readByte();
      case 2 -> (long) Short.toUnsignedInt(readShort());
      case 3 -> (long) readShort();
      case 4 -> Integer.toUnsignedLong(readInt());
      case 5 -> (long) readInt();
      case 6 -> readFloat();
      case 7 -> readByte() != 0;
      case 8 -> readText();
      case 9 -> readList();
      case 10, 11 -> readLong();
      case 12 -> readDouble();
      default -> throw new IOException("value type=" + type + " is not known");
    };
  }

  private List<Object> readList() throws IOException {
    int type = readInt();
    long size = readLong();
    // Each element takes a byte at least: a larger number is a damaged file's.
    if (size < 0 || size > file.byteSize() - position) {
      throw new IOException("an array has size=" + size);
    }
    List<Object> list = new ArrayList<>(Math.toIntExact(size));
    for (long i = 0; i < size; i++) {
      list.add(readValue(type));
    }
    return list;
  }

  private byte readByte() {
    byte value = file.get(BYTE, position);
    position += 1;
    return value;
  }

  private short readShort() {
    short value = file.get(SHORT, position);
    position += 2;
    return value;
  }

  private int readInt() {
    int value = file.get(INT, position);
    position += 4;
    return value;
  }

  private long readLong() {
    long value = file.get(LONG, position);
    position += 8;
    return value;
  }

  private float readFloat() {
    float value = file.get(FLOAT, position);
    position += 4;
    return value;
  }

  private double readDouble() {
    double value = file.get(DOUBLE, position);
    position += 8;
    return value;
  }

  private String readText() {
    long length = readLong();
    byte[] bytes = file.asSlice(position, length).toArray(BYTE);
    position += length;
    return new String(bytes, StandardCharsets.UTF_8);
  }

  Map<String, Tensor> tensors() {
    return tensors;
  }

  @Nullable Object find(String key) {
    return metadata.get(key);
  }

  String text(String key) throws IOException {
    return require(key, String.class);
  }

  int integer(String key) throws IOException {
    return require(key, Number.class).intValue();
  }

  float decimal(String key) throws IOException {
    return require(key, Number.class).floatValue();
  }

  List<String> texts(String key) throws IOException {
    List<String> texts = new ArrayList<>();
    for (Object item : require(key, List.class)) {
      texts.add(String.valueOf(item));
    }
    return texts;
  }

  List<Integer> integers(String key) throws IOException {
    List<Integer> numbers = new ArrayList<>();
    for (Object item : require(key, List.class)) {
      if (!(item instanceof Number n)) {
        throw new IOException("file=" + path + ": " + key + " has something that is no number");
      }
      numbers.add(n.intValue());
    }
    return numbers;
  }

  private <T> T require(String key, Class<T> type) throws IOException {
    Object value = metadata.get(key);
    if (!type.isInstance(value)) {
      throw new IOException(
          "file=" + path + ": " + key + (value == null ? " is missing" : " has another type"));
    }
    return type.cast(value);
  }

  @Override
  public void close() {
    arena.close();
  }
}
