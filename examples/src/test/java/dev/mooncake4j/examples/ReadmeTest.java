package dev.mooncake4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** The examples on the pages are compiled; the README's is run by the integration tests too. */
class ReadmeTest {
  private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();

  @Test
  void theEmbeddingExampleIsTheCompiledOne() throws IOException {
    String shown = shown("README.md", "embedding");
    assertThat(shown).isEqualTo(compiled("embedding"));
    assertThat(shown.lines().count()).as("about thirty lines").isBetween(20L, 40L);
  }

  @Test
  void theExampleOfAPrefillInChunksIsTheCompiledOne() throws IOException {
    assertThat(shown("docs/embedding.md", "progress")).isEqualTo(compiled("progress"));
  }

  private static String compiled(String region) throws IOException {
    String source =
        Files.readString(
            ROOT.resolve("examples/src/main/java/dev/mooncake4j/examples/EmbeddingExample.java"));
    return between(source, "// @start region=" + region + "\n", "  // @end")
        .stripTrailing()
        .stripIndent();
  }

  private static String shown(String page, String snippet) throws IOException {
    return between(
            Files.readString(ROOT.resolve(page)), "<!-- snippet: " + snippet + " -->", "\n```\n")
        .replace("```java", "")
        .strip();
  }

  private static String between(String text, String start, String end) {
    int from = text.indexOf(start);
    assertThat(from).as("start=" + start).isNotNegative();
    int to = text.indexOf(end, from + start.length());
    assertThat(to).as("end=" + end).isNotNegative();
    return text.substring(from + start.length(), to);
  }
}
