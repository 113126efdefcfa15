package dev.mooncake4j.bench;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * One request to be planned: block ids in runs, the same for us and for vLLM.
 *
 * @param layers layers, each one region
 * @param blocks blocks of the request
 * @param run blocks that follow each other on both sides
 * @param source the prefiller's ids
 * @param destination the decoder's ids
 */
record PlanShape(int layers, int blocks, int run, List<Integer> source, List<Integer> destination) {
  /**
   * The gaps between runs, one digit for each: what Python's {@code random.Random(5).randrange(2,
   * 9)} gives, for the sides of the shapes in their order.
   */
  private static final String STEPS = "planning-steps.txt";

  private static final int[][] SHAPES = {
    {28, 512, 1}, {61, 8192, 1}, {61, 8192, 8}, {80, 8192, 8192}
  };

  static List<PlanShape> all() {
    String steps = steps();
    List<PlanShape> shapes = new ArrayList<>();
    int at = 0;
    for (int[] shape : SHAPES) {
      int blocks = shape[1];
      int run = shape[2];
      int runs = (blocks + run - 1) / run;
      shapes.add(
          new PlanShape(
              shape[0],
              blocks,
              run,
              ids(steps.substring(at, at + runs), blocks, run),
              ids(steps.substring(at + runs, at + 2 * runs), blocks, run)));
      at += 2 * runs;
    }
    return shapes;
  }

  private static List<Integer> ids(String steps, int blocks, int run) {
    List<Integer> ids = new ArrayList<>(blocks);
    int next = 1;
    for (int i = 0; i < steps.length(); i++) {
      next += steps.charAt(i) - '0';
      for (int end = Math.min(blocks, ids.size() + run); ids.size() < end; next++) {
        ids.add(next);
      }
    }
    return ids;
  }

  private static String steps() {
    try (InputStream in = PlanShape.class.getResourceAsStream(STEPS)) {
      if (in == null) {
        throw new IllegalStateException(STEPS + " is not on the class path");
      }
      return new String(in.readAllBytes(), StandardCharsets.US_ASCII).replace("\n", "");
    } catch (IOException e) {
      throw new UncheckedIOException(STEPS, e);
    }
  }

  /** Copies that vLLM makes of it: one for each layer and run. */
  int descriptors() {
    return layers * ((blocks + run - 1) / run);
  }

  @Override
  public String toString() {
    return layers + " layers x " + blocks + " blocks in runs of " + run;
  }
}
