package dev.mooncake4j.examples.jlama.convert;

import dev.mooncake4j.examples.jlama.convert.GgufFile.Tensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import tools.jackson.databind.json.JsonMapper;

/** Writes tensors as single floats into a safetensors file, in the order of their names. */
final class SafetensorsWriter {
  private static final int BUFFER_BYTES = 1 << 20;

  private final SortedMap<String, Source> tensors;
  private final Progress progress;

  /**
   * Where a tensor comes from.
   *
   * @param rotaryHeads heads whose rows are to be put back in order, or 0
   */
  record Source(Tensor tensor, int rotaryHeads) {
    /**
     * llama.cpp keeps the rows of a head that rotate together side by side, (head, d/2, 2); the
     * others keep them half a head apart, (head, 2, d/2).
     */
    int sourceRow(int row) {
      if (rotaryHeads == 0) {
        return row;
      }
      int size = tensor.rows() / rotaryHeads;
      int head = row / size;
      int within = row % size;
      int half = within / (size / 2);
      return head * size + within % (size / 2) * 2 + half;
    }

    long floats() {
      return (long) tensor.rows() * tensor.columns();
    }
  }

  SafetensorsWriter(SortedMap<String, Source> tensors, Progress progress) {
    this.tensors = tensors;
    this.progress = progress;
  }

  void write(Path path) throws IOException {
    long total = tensors.values().stream().mapToLong(Source::floats).sum();
    long done = 0;
    try (FileChannel channel =
        FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      writeAll(channel, header());
      for (Source source : tensors.values()) {
        writeTensor(channel, source);
        done += source.floats();
        progress.at(done, total);
      }
      // The folder gets its name only when its contents are on the disk.
      channel.force(true);
    }
  }

  private ByteBuffer header() {
    Map<String, Object> header = new LinkedHashMap<>();
    header.put("__metadata__", Map.of("format", "pt"));
    long offset = 0;
    for (Map.Entry<String, Source> entry : tensors.entrySet()) {
      long end = offset + entry.getValue().floats() * Float.BYTES;
      Map<String, Object> tensor = new LinkedHashMap<>();
      tensor.put("dtype", "F32");
      tensor.put("shape", entry.getValue().tensor().shape());
      tensor.put("data_offsets", List.of(offset, end));
      header.put(entry.getKey(), tensor);
      offset = end;
    }
    byte[] json = JsonMapper.shared().writeValueAsString(header).getBytes(StandardCharsets.UTF_8);
    int padded = Math.ceilDiv(json.length, 8) * 8;
    ByteBuffer bytes = ByteBuffer.allocate(8 + padded).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putLong(padded).put(json);
    while (bytes.hasRemaining()) {
      bytes.put((byte) ' ');
    }
    return bytes.flip();
  }

  private static void writeTensor(FileChannel channel, Source source) throws IOException {
    Tensor tensor = source.tensor();
    long rowBytes = tensor.type().rowBytes(tensor.columns());
    float[] row = new float[tensor.columns()];
    ByteBuffer buffer =
        ByteBuffer.allocateDirect(Math.max(BUFFER_BYTES, row.length * Float.BYTES))
            .order(ByteOrder.LITTLE_ENDIAN);
    for (int r = 0; r < tensor.rows(); r++) {
      tensor.type().decode(tensor.data().asSlice(source.sourceRow(r) * rowBytes, rowBytes), row);
      if (buffer.remaining() < row.length * Float.BYTES) {
        writeAll(channel, buffer.flip());
        buffer.clear();
      }
      buffer.asFloatBuffer().put(row);
      buffer.position(buffer.position() + row.length * Float.BYTES);
    }
    writeAll(channel, buffer.flip());
  }

  private static void writeAll(FileChannel channel, ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining()) {
      channel.write(bytes);
    }
  }
}
