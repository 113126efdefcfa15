package dev.mooncake4j.core;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What {@code docs/reliability.md} says is there. */
class ReliabilityTest {
  private static final int ROWS = 38;
  private static final int EARLY_ROWS = 12;
  private static final Path ROOT = Objects.requireNonNull(Path.of("").toAbsolutePath().getParent());

  private static final Pattern ROW = Pattern.compile("^\\| (\\d+) \\|.*", Pattern.MULTILINE);
  private static final Pattern EARLY_ROW = Pattern.compile("^\\| E(\\d+) \\|.*", Pattern.MULTILINE);
  private static final Pattern MODULE = Pattern.compile("([a-z]+(?:-[a-z]+)*): (`[^;|]*)");
  private static final Pattern REFERENCE = Pattern.compile("`(\\w+)#(\\w+)`");

  /** A method's annotations, each on a line of its own and not indented further, and its name. */
  private static final Pattern TEST =
      Pattern.compile(
          "^  @(?:Test|ParameterizedTest|RepeatedTest|TestFactory|FuzzTest)\\b"
              + "(?:(?!^  \\}$).)*?^  [\\w<>?,. ]*?(\\w+)\\(",
          Pattern.MULTILINE | Pattern.DOTALL);

  private static final Pattern SLEEP =
      Pattern.compile("Thread\\.sleep\\(|TimeUnit\\.[A-Z]+\\.sleep\\(");

  /** Test sources, and the contracts that are published for others' tests, by module. */
  private static final Map<Path, String> SOURCES = new HashMap<>();

  private static String table = "";

  @BeforeAll
  static void read() throws IOException {
    table = Files.readString(ROOT.resolve("docs/reliability.md"));
    try (Stream<Path> modules = Files.list(ROOT)) {
      for (Path module : modules.filter(Files::isDirectory).toList()) {
        collect(module.resolve("src/test/java"));
        collect(module.resolve("src/main/java/dev/mooncake4j/testkit"));
      }
    }
    assertThat(SOURCES).hasSizeGreaterThan(100);
  }

  private static void collect(Path folder) throws IOException {
    if (!Files.isDirectory(folder)) {
      return;
    }
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.filter(f -> f.toString().endsWith(".java")).toList()) {
        SOURCES.put(file, Files.readString(file));
      }
    }
  }

  @Test
  void everyRowIsThereOnceAndNamesATest() {
    assertRows(ROW, ROWS);
  }

  @Test
  void everyRowOfEarlySendingIsThereOnceAndNamesATest() {
    assertRows(EARLY_ROW, EARLY_ROWS);
  }

  private static void assertRows(Pattern pattern, int rows) {
    List<Integer> numbers = new ArrayList<>();
    Matcher row = pattern.matcher(table);
    while (row.find()) {
      numbers.add(Integer.valueOf(row.group(1)));
      assertThat(REFERENCE.matcher(row.group()).find()).as(row.group()).isTrue();
    }
    assertThat(numbers).isEqualTo(IntStream.rangeClosed(1, rows).boxed().toList());
  }

  @Test
  void everyTestNamedIsThere() {
    List<String> wrong = new ArrayList<>();
    int named = 0;
    Matcher modules = MODULE.matcher(table);
    while (modules.find()) {
      Matcher reference = REFERENCE.matcher(modules.group(2));
      while (reference.find()) {
        named++;
        if (!isTest(modules.group(1), reference.group(1), reference.group(2))) {
          wrong.add(modules.group(1) + ": " + reference.group(1) + "#" + reference.group(2));
        }
      }
    }
    assertThat(wrong).as("named in docs/reliability.md and not there").isEmpty();
    long all = REFERENCE.matcher(table).results().count();
    assertThat(named).as("each test stands behind its module").isEqualTo((int) all);
  }

  private static boolean isTest(String module, String type, String method) {
    for (Map.Entry<Path, String> source : SOURCES.entrySet()) {
      Path file = ROOT.relativize(source.getKey());
      if (file.startsWith(module) && file.endsWith(type + ".java")) {
        return TEST.matcher(source.getValue())
            .results()
            .anyMatch(found -> found.group(1).equals(method));
      }
    }
    return false;
  }

  @Test
  void aWrongNameIsFound() {
    assertThat(isTest("connector-core", "ReliabilityTest", "aWrongNameIsFound")).isTrue();
    assertThat(isTest("connector-core", "ReliabilityTest", "isTest")).isFalse();
    assertThat(isTest("connector-core", "ReliabilityTest", "aWrongName")).isFalse();
    assertThat(isTest("bootstrap", "ReliabilityTest", "aWrongNameIsFound")).isFalse();
    assertThat(isTest("connector-core", "Reliability", "aWrongNameIsFound")).isFalse();
  }

  @Test
  void noTestSleeps() {
    assertThat(SOURCES)
        .allSatisfy(
            (file, text) -> assertThat(SLEEP.matcher(text).find()).as(file.toString()).isFalse());
  }
}
