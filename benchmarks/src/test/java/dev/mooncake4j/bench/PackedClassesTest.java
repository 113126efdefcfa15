package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.bench.gpu.GpuBench;
import java.io.IOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.constantpool.ClassEntry;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class PackedClassesTest {
  private static final List<String> PACKED =
      List.of("dev/mooncake4j/bench/gpu/", "dev/mooncake4j/bench/measure/");

  /** What gpu-bench.sh leaves out of its pack. */
  private static final List<String> LEFT_OUT =
      List.of("dev/mooncake4j/bench/", "dev/mooncake4j/it/", "org/openjdk/jmh/");

  @Test
  void whatGpuBenchPacksNeedsNothingThatItLeavesOut() throws IOException, URISyntaxException {
    Path classes =
        Path.of(GpuBench.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    List<String> missing = new ArrayList<>();
    for (String folder : PACKED) {
      List<Path> files;
      try (Stream<Path> all = Files.walk(classes.resolve(folder))) {
        files = all.filter(file -> file.toString().endsWith(".class")).toList();
      }
      assertThat(files).isNotEmpty();
      for (Path file : files) {
        for (String needed : neededBy(file)) {
          if (startsWithAny(needed, LEFT_OUT) && !startsWithAny(needed, PACKED)) {
            missing.add(classes.relativize(file) + " needs " + needed);
          }
        }
      }
    }

    assertThat(missing).isEmpty();
  }

  private static List<String> neededBy(Path file) throws IOException {
    List<String> names = new ArrayList<>();
    for (var entry : ClassFile.of().parse(file).constantPool()) {
      if (entry instanceof ClassEntry named) {
        names.add(named.asInternalName());
      }
    }
    return names;
  }

  private static boolean startsWithAny(String name, List<String> prefixes) {
    return prefixes.stream().anyMatch(name::startsWith);
  }
}
