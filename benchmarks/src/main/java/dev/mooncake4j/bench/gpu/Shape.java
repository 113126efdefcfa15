package dev.mooncake4j.bench.gpu;

import java.util.ArrayList;
import java.util.List;

/**
 * A model's cache.
 *
 * @param name as it stands in tables and files
 * @param layers of the model
 * @param blockBytes of one layer's block, a multiple of 8
 */
record Shape(String name, int layers, int blockBytes) {
  private static final List<Shape> ALL =
      List.of(
          new Shape("qwen2.5-7b", 28, 64 << 10),
          new Shape("deepseek-mla", 61, 18 << 10),
          new Shape("probe", 4, 64 << 10));

  static Shape named(String name) {
    for (Shape shape : ALL) {
      if (shape.name.equals(name)) {
        return shape;
      }
    }
    throw new IllegalArgumentException("unknown shape=" + name + ": one of " + ALL);
  }

  List<String> layerNames() {
    List<String> names = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      names.add("model.layers." + layer + ".self_attn.attn");
    }
    return names;
  }

  /** Bytes of a number of blocks in all layers. */
  long bytes(int blocks) {
    return (long) blocks * layers * blockBytes;
  }
}
