package dev.mooncake4j.engine.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.engine.ChildJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files that are no engine library, each told with what it is and what to do. */
class BrokenLibrariesTest {
  private static final Path LIBRARIES = Path.of("target/native-test").toAbsolutePath();

  @TempDir private Path folder;

  private static EngineUnavailableException failure(boolean named, Path... files) {
    LibraryPlaces places =
        new LibraryPlaces(
            Arrays.stream(files)
                .map(file -> new LibraryPlaces.Place("test", file.toString()))
                .toList(),
            List.of("/pattern/*/engine.so"),
            named);
    return catchThrowableOfType(
        EngineUnavailableException.class, () -> LibraryLoader.tryAll(new DynamicLinker(), places));
  }

  @Test
  void aTextFileIsNoLibrary() throws IOException {
    Path text = Files.writeString(folder.resolve("text.so"), "not a library at all".repeat(50));
    assertThat(failure(true, text))
        .hasMessageContaining("test: " + text)
        .hasMessageContaining("invalid ELF header")
        .hasMessageContaining(text + " is not a shared library");
  }

  @Test
  void anEmptyFileIsNoLibrary() throws IOException {
    Path empty = Files.createFile(folder.resolve("empty.so"));
    assertThat(failure(true, empty))
        .hasMessageContaining("file too short")
        .hasMessageContaining(empty + " is not a shared library");
  }

  @Test
  void aFileThatIsNotThereIsTold() {
    Path missing = folder.resolve("missing.so");
    assertThat(failure(true, missing))
        .hasMessageContaining("there is no file " + missing + ": correct its name");
  }

  @Test
  void whereTheSettingFailsItIsTheSettingThatIsToBeMended() {
    Path missing = folder.resolve("missing.so");
    LibraryPlaces places = LibraryPlaces.find(missing, new Properties(), Map.of());
    assertThatThrownBy(() -> LibraryLoader.tryAll(new DynamicLinker(), places))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("setting engineLibrary: " + missing)
        .hasMessageContaining("there is no file " + missing + ": correct its name")
        .hasMessageContaining("correct engineLibrary, or remove it")
        .hasMessageNotContaining("pip install")
        .hasMessageNotContaining(LibraryPlaces.VARIABLE);
  }

  @Test
  void aLibraryThatIsNoEngineIsTold() {
    assertThat(failure(true, LIBRARIES.resolve("libempty.so")))
        .hasMessageContaining("neither the engine's C API nor its C++ class");
  }

  @Test
  void aLibraryWithAPartOfTheApiNamesWhatIsMissing() {
    assertThat(failure(true, LIBRARIES.resolve("libpartial.so")))
        .hasMessageContaining("lacks discoverTopology, getLocalIpAndPort")
        .hasMessageContaining("freeBatchID");
  }

  @Test
  void aLibraryForAnotherCudaNamesTheMissingSoname() {
    assertThat(failure(true, LIBRARIES.resolve("libneedscuda.so")))
        .hasMessageContaining("libcudart.so.12: cannot open shared object file")
        .hasMessageContaining("libcudart.so.12 is missing: this wheel is built for another CUDA");
  }

  @Test
  void everyPlaceIsToldOnceWithItsAttemptAsSuppressed() {
    Path missing = folder.resolve("missing.so");
    Path empty = LIBRARIES.resolve("libempty.so");
    Path partial = LIBRARIES.resolve("libpartial.so");
    EngineUnavailableException failure = failure(false, missing, empty, partial);
    assertThat(failure)
        .hasMessageContaining(missing.toString())
        .hasMessageContaining(empty.toString())
        .hasMessageContaining(partial.toString())
        .hasMessageContaining("no /pattern/*/engine.so")
        .hasMessageContaining("pip install mooncake-transfer-engine-non-cuda")
        .hasMessageContaining("MOONCAKE4J_ENGINE_LIBRARY=FILE");
    assertThat(failure.getSuppressed()).hasSize(3).hasOnlyElementsOfType(LibraryException.class);
    assertThat(failure.getMessage()).doesNotContain("correct its name");
  }

  @Test
  void aNamedFileIsNotReplacedAndIsNotTriedAgain() throws Exception {
    String output =
        ChildJvm.run(
            Map.of("MOONCAKE4J_ENGINE_LIBRARY", LIBRARIES.resolve("libempty.so").toString()),
            List.of("--enable-native-access=ALL-UNNAMED"),
            AvailabilityProbe.class,
            "twice");
    assertThat(output)
        .contains("available=false same=true suppressed=1")
        .contains("environment variable MOONCAKE4J_ENGINE_LIBRARY: " + LIBRARIES);
  }

  @Test
  void deniedNativeAccessIsToldWithTheFlag() throws Exception {
    String output =
        ChildJvm.run(
            Map.of(), List.of("--illegal-native-access=deny"), AvailabilityProbe.class, "once");
    assertThat(output)
        .contains("available=false")
        .contains("native access is denied")
        .contains("Next: start java with --enable-native-access=ALL-UNNAMED");
  }

  @Test
  void aFolderThatTakesNoLibraryIsTold() throws Exception {
    String output =
        ChildJvm.run(
            Map.of(),
            List.of("--enable-native-access=ALL-UNNAMED", "-Djava.io.tmpdir=/nowhere"),
            AvailabilityProbe.class,
            "once");
    assertThat(output).contains("available=false").contains("java.io.tmpdir=/nowhere");
  }

  @Test
  void theOtherEngineOfTheSameLibraryIsRefused() throws Exception {
    String output =
        ChildJvm.run(
            Map.of("MC_USE_TENT", "1"),
            List.of("--enable-native-access=ALL-UNNAMED"),
            AvailabilityProbe.class,
            "once");
    assertThat(output).contains("available=false").contains("MC_USE_TENT is set");
  }

  @Test
  void aWrongPathIsNoReasonToForgetTheRightOne() {
    assertThatThrownBy(() -> EngineLibrary.open(folder.resolve("missing.so"), false))
        .isInstanceOf(EngineUnavailableException.class);
    assertThat(EngineLibrary.open(null, false).file()).isNotNull();
  }
}
