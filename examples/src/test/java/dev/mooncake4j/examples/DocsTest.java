package dev.mooncake4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The links of the documentation lead somewhere, and messages that it quotes are in the code. */
class DocsTest {

  private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
  private static final Path SYMPTOMS = ROOT.resolve("docs/symptoms");

  private static final Pattern LINK = Pattern.compile("\\]\\(([^)\\s]+)\\)");
  private static final Pattern HEADING = Pattern.compile("(?m)^#+ (.+)$");

  /** Of these blocks alone the lines are ours: others are commands, or lines of the engine's. */
  private static final Pattern QUOTED = Pattern.compile("(?s)\n```text\n(.*?)\n```\n");

  private static final Pattern JOINT = Pattern.compile("\"\\s*\\+\\s*\"");
  private static final Pattern LITERAL = Pattern.compile("\"((?:[^\"\\\\\n]|\\\\.)*)\"");

  @Test
  void everyLinkToAFileOfTheRepositoryLeadsToIt() throws IOException {
    List<String> broken = new ArrayList<>();
    int links = 0;
    for (Path page : pages()) {
      Matcher link = LINK.matcher(Files.readString(page));
      while (link.find()) {
        String target = link.group(1);
        if (target.startsWith("http://") || target.startsWith("https://")) {
          continue;
        }
        links++;
        String[] parts = target.split("#", 2);
        Path file = parts[0].isEmpty() ? page : page.resolveSibling(parts[0]).normalize();
        boolean there = file.startsWith(ROOT) && Files.exists(file);
        if (!there || (parts.length == 2 && !anchors(file).contains(parts[1]))) {
          broken.add(ROOT.relativize(page) + ": " + target);
        }
      }
    }
    assertThat(links).isGreaterThan(50);
    assertThat(broken).isEmpty();
  }

  @Test
  void everySymptomIsInTheIndex() throws IOException {
    Set<String> linked = new TreeSet<>();
    Matcher link = LINK.matcher(Files.readString(SYMPTOMS.resolve("README.md")));
    while (link.find()) {
      linked.add(link.group(1));
    }
    try (Stream<Path> files = Files.list(SYMPTOMS)) {
      assertThat(linked)
          .containsAll(
              files
                  .map(file -> String.valueOf(file.getFileName()))
                  .filter(name -> !name.equals("README.md"))
                  .toList());
    }
  }

  /** A line is split at its "…", which stand for values; the rest is some string of the code. */
  @Test
  void messagesThatSymptomsQuoteAreInTheCode() throws IOException {
    String strings = stringsOfTheSources();
    List<String> unknown = new ArrayList<>();
    int lines = 0;
    for (Path page : pages()) {
      if (!page.startsWith(SYMPTOMS)) {
        continue;
      }
      Matcher block = QUOTED.matcher(Files.readString(page));
      while (block.find()) {
        for (String line : block.group(1).split("\n", -1)) {
          lines++;
          for (String piece : line.split("…", -1)) {
            if (!strings.contains(piece.strip())) {
              unknown.add(ROOT.relativize(page) + ": " + piece.strip());
            }
          }
        }
      }
    }
    assertThat(lines).isGreaterThan(50);
    assertThat(unknown).isEmpty();
  }

  private static List<Path> pages() throws IOException {
    List<Path> pages = new ArrayList<>(List.of(ROOT.resolve("README.md")));
    try (Stream<Path> files = Files.walk(ROOT.resolve("docs"))) {
      files.filter(file -> file.toString().endsWith(".md")).sorted().forEach(pages::add);
    }
    return pages;
  }

  /** As GitHub makes them of headings. */
  private static Set<String> anchors(Path page) throws IOException {
    Set<String> anchors = new TreeSet<>();
    Matcher heading = HEADING.matcher(Files.readString(page));
    while (heading.find()) {
      anchors.add(
          heading
              .group(1)
              .toLowerCase(Locale.ROOT)
              .replaceAll("[^\\p{L}\\p{N} _-]", "")
              .replace(' ', '-'));
    }
    return anchors;
  }

  /** All string literals, one a line; those that are joined with + are one. */
  private static String stringsOfTheSources() throws IOException {
    StringBuilder strings = new StringBuilder();
    for (Path source : sources()) {
      Matcher literal = LITERAL.matcher(JOINT.matcher(Files.readString(source)).replaceAll(""));
      while (literal.find()) {
        strings.append(literal.group(1).replace("\\\"", "\"")).append('\n');
      }
    }
    return strings.toString();
  }

  private static List<Path> sources() throws IOException {
    List<Path> sources = new ArrayList<>();
    for (String module :
        List.of("connector-api", "connector-core", "bootstrap", "transfer-native", "metrics")) {
      try (Stream<Path> files = Files.walk(ROOT.resolve(module + "/src/main/java"))) {
        sources.addAll(
            files
                .filter(file -> file.toString().endsWith(".java"))
                .collect(Collectors.toUnmodifiableList()));
      }
    }
    return sources;
  }
}
