package dev.mooncake4j.core.plan;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Questions put to vLLM 0.33.0's own functions, and its answers. Another draw of them is read from
 * the folder that the system property {@code mooncake4j.answers} names.
 */
final class Answers {
  private static final JsonMapper JSON = JsonMapper.builder().build();

  private Answers() {}

  /** One test for each case of a file, named by the case's index. */
  static Stream<DynamicTest> each(String name, Consumer<JsonNode> test) {
    List<DynamicTest> tests = new ArrayList<>();
    JsonNode cases = read(name);
    for (int i = 0; i < cases.size(); i++) {
      JsonNode one = cases.get(i);
      tests.add(DynamicTest.dynamicTest(name + "[" + i + "]", () -> test.accept(one)));
    }
    if (tests.isEmpty()) {
      throw new IllegalStateException(name + ".json has no cases");
    }
    return tests.stream();
  }

  private static JsonNode read(String name) {
    String file = name + ".json";
    String folder = System.getProperty("mooncake4j.answers");
    try (InputStream in =
        folder == null
            ? Answers.class.getResourceAsStream("/vllm-answers/" + file)
            : Files.newInputStream(Path.of(folder, file))) {
      if (in == null) {
        throw new IllegalStateException(file + " is not among the test resources");
      }
      return JSON.readTree(in);
    } catch (IOException e) {
      throw new IllegalStateException("cannot read " + file + " in folder=" + folder, e);
    }
  }

  static int[] ints(JsonNode array) {
    int[] out = new int[array.size()];
    for (int i = 0; i < out.length; i++) {
      out[i] = array.get(i).intValue();
    }
    return out;
  }

  static long[] longs(JsonNode array) {
    long[] out = new long[array.size()];
    for (int i = 0; i < out.length; i++) {
      out[i] = array.get(i).longValue();
    }
    return out;
  }

  /** A number, or 0 where there is none. */
  static int intOrZero(JsonNode node) {
    return node.isNull() ? 0 : node.intValue();
  }
}
