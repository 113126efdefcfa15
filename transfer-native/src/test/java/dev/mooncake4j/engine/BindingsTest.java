package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.engine.ffi.TransferEngineC;
import dev.mooncake4j.engine.ffi.transfer_request;
import dev.mooncake4j.engine.ffi.transfer_status;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The header, what is bound of it, the generated sources and the adapter belong together. */
class BindingsTest {
  private static final Path JEXTRACT = Path.of("jextract");
  private static final Path GENERATED = Path.of("src/main/java/dev/mooncake4j/engine/ffi");
  private static final Path SUMS = JEXTRACT.resolve("SHA256SUMS");

  @Test
  void generatedSourcesAreThoseOfThisHeader() throws Exception {
    Set<Path> listed = new HashSet<>();
    for (String line : Files.readAllLines(SUMS)) {
      String[] parts = line.split(" +", 2);
      Path file = Path.of(parts[1]);
      listed.add(file);
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file));
      assertThat(HexFormat.of().formatHex(hash))
          .as("%s differs from %s: generate again as jextract/README.md says", file, SUMS)
          .isEqualTo(parts[0]);
    }
    Set<Path> expected = new HashSet<>();
    expected.add(JEXTRACT.resolve("mooncake_transfer_engine.h"));
    expected.add(JEXTRACT.resolve("mooncake.includes"));
    try (Stream<Path> files = Files.list(GENERATED)) {
      files.filter(file -> !file.endsWith("package-info.java")).forEach(expected::add);
    }
    assertThat(listed).isEqualTo(expected);
  }

  @Test
  void everyFunctionIncludedIsDeclaredAndBound() throws IOException {
    String header = Files.readString(JEXTRACT.resolve("mooncake_transfer_engine.h"));
    Set<String> bound = new HashSet<>();
    for (Method method : TransferEngineC.class.getMethods()) {
      bound.add(method.getName());
    }
    assertThat(functions())
        .isNotEmpty()
        .allSatisfy(
            function -> {
              assertThat(header).containsPattern("\\b" + function + "\\(");
              assertThat(bound).contains(function);
            });
  }

  @Test
  void structsHaveTheSizesOfTheHeader() {
    assertThat(transfer_request.sizeof()).isEqualTo(40);
    assertThat(transfer_status.sizeof()).isEqualTo(16);
  }

  @Test
  void theAdapterExportsEveryFunctionAndSaysNoToTheUnsupported() throws IOException {
    Engines.require();
    SymbolLookup symbols = SymbolLookup.loaderLookup();
    assertThat(functions())
        .allSatisfy(function -> assertThat(symbols.find(function)).as(function).isPresent());
    MemorySegment none = MemorySegment.NULL;
    assertThat(TransferEngineC.warmupEfaSegment(none, none)).isNegative();
    assertThat(TransferEngineC.getNicLoadStats(none, none, none)).isNegative();
    assertThat(TransferEngineC.getNotifsFromEngine(none, none)).isEqualTo(none);
    TransferEngineC.enableGracefulShutdown(none);
  }

  private static List<String> functions() throws IOException {
    return Files.readAllLines(JEXTRACT.resolve("mooncake.includes")).stream()
        .map(line -> line.split(" ", -1))
        .filter(words -> Arrays.asList(words).contains("--include-function"))
        .map(words -> words[1])
        .toList();
  }
}
