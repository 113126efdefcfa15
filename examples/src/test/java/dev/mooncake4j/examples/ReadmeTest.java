package dev.mooncake4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** The README's example is the code that is compiled, and run by the integration tests. */
class ReadmeTest {

  @Test
  void theEmbeddingExampleIsTheCompiledOne() throws IOException {
    Path root = Path.of("..").toAbsolutePath().normalize();
    String source =
        Files.readString(
            root.resolve("examples/src/main/java/dev/mooncake4j/examples/EmbeddingExample.java"));
    String compiled =
        between(source, "// @start region=embedding\n", "  // @end").stripTrailing().stripIndent();
    String shown =
        between(
                Files.readString(root.resolve("README.md")),
                "<!-- snippet: embedding -->",
                "\n```\n")
            .replace("```java", "")
            .strip();
    assertThat(shown).isEqualTo(compiled);
    assertThat(shown.lines().count()).as("about thirty lines").isBetween(20L, 40L);
  }

  private static String between(String text, String start, String end) {
    int from = text.indexOf(start);
    assertThat(from).as("start=" + start).isNotNegative();
    int to = text.indexOf(end, from + start.length());
    assertThat(to).as("end=" + end).isNotNegative();
    return text.substring(from + start.length(), to);
  }
}
