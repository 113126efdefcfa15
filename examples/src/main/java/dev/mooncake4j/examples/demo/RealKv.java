package dev.mooncake4j.examples.demo;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * The KV of a real prompt: what SmolLM2-135M-Instruct keeps for 64 tokens, as [layer][token][192]
 * halves, K and V apart.
 *
 * <p>A cache block here holds 16 tokens of one layer, K first, then V. Prompts longer than 64
 * tokens repeat it.
 */
final class RealKv {
  static final int BLOCK_TOKENS = 16;

  private final int layers;
  private final int tokens;
  private final int rowBytes;
  private final byte[] data;
  private final int keys;
  private final int values;

  private RealKv(int layers, int tokens, int rowBytes, byte[] data, int keys, int values) {
    this.layers = layers;
    this.tokens = tokens;
    this.rowBytes = rowBytes;
    this.data = data;
    this.keys = keys;
    this.values = values;
  }

  static RealKv load() {
    try (InputStream in = RealKv.class.getResourceAsStream("smollm2-kv-f16.safetensors")) {
      if (in == null) {
        throw new IllegalStateException(
            "smollm2-kv-f16.safetensors is not on the class path: build the examples module");
      }
      return parse(in.readAllBytes());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static RealKv parse(byte[] file) {
    ByteBuffer buffer = ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN);
    int headerBytes = Math.toIntExact(buffer.getLong(0));
    JsonNode header =
        JsonMapper.shared().readTree(new String(file, 8, headerBytes, StandardCharsets.UTF_8));
    JsonNode k = tensor(header, "k");
    JsonNode v = tensor(header, "v");
    int base = 8 + headerBytes;
    return new RealKv(
        k.get("shape").get(0).asInt(),
        k.get("shape").get(1).asInt(),
        k.get("shape").get(2).asInt() * 2,
        file,
        base + k.get("data_offsets").get(0).asInt(),
        base + v.get("data_offsets").get(0).asInt());
  }

  private static JsonNode tensor(JsonNode header, String name) {
    for (String key : header.propertyNames()) {
      if (key.equalsIgnoreCase(name) || key.equalsIgnoreCase(name + "_cache")) {
        return header.get(key);
      }
    }
    throw new IllegalStateException("the KV file has no tensor " + name + ": " + header);
  }

  int layers() {
    return layers;
  }

  /** Bytes of one block of one layer. */
  int blockBytes() {
    return 2 * BLOCK_TOKENS * rowBytes;
  }

  /** Writes block {@code index} of a prompt, of one layer, into a cache block. */
  void fill(int layer, int index, MemorySegment block) {
    int half = BLOCK_TOKENS * rowBytes;
    MemorySegment.copy(data, offset(keys, layer, index), block, ValueLayout.JAVA_BYTE, 0, half);
    MemorySegment.copy(
        data, offset(values, layer, index), block, ValueLayout.JAVA_BYTE, half, half);
  }

  /** Number of bytes of a cache block that differ from block {@code index} of a prompt. */
  long differences(int layer, int index, MemorySegment block) {
    int half = BLOCK_TOKENS * rowBytes;
    MemorySegment source = MemorySegment.ofArray(data);
    return differences(source, offset(keys, layer, index), block, 0, half)
        + differences(source, offset(values, layer, index), block, half, half);
  }

  private static long differences(
      MemorySegment a, long aFrom, MemorySegment b, long bFrom, long length) {
    long wrong = 0;
    if (MemorySegment.mismatch(a, aFrom, aFrom + length, b, bFrom, bFrom + length) < 0) {
      return 0;
    }
    for (long i = 0; i < length; i++) {
      if (a.get(ValueLayout.JAVA_BYTE, aFrom + i) != b.get(ValueLayout.JAVA_BYTE, bFrom + i)) {
        wrong++;
      }
    }
    return wrong;
  }

  private int offset(int tensor, int layer, int index) {
    int blocks = tokens / BLOCK_TOKENS;
    return tensor + (layer * tokens + (index % blocks) * BLOCK_TOKENS) * rowBytes;
  }
}
