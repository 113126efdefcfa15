package dev.mooncake4j.engine.load;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the library is looked for, and in which order. */
class LibraryPlacesTest {
  @TempDir private Path home;

  private Properties properties(@Nullable String library) {
    Properties properties = new Properties();
    properties.setProperty("user.home", home.toString());
    if (library != null) {
      properties.setProperty("mooncake4j.engine.library", library);
    }
    return properties;
  }

  private Path wheel(String folder) throws IOException {
    Path file = home.resolve(folder).resolve("mooncake/engine.so");
    Files.createDirectories(file.getParent());
    return Files.createFile(file);
  }

  @Test
  void whatSomebodyNamedIsTheOnlyPlaceAndTheSettingComesFirst() {
    Map<String, String> environment = Map.of("MOONCAKE4J_ENGINE_LIBRARY", "/env.so");
    LibraryPlaces setting =
        LibraryPlaces.find(Path.of("/setting.so"), properties("/property.so"), environment);
    assertThat(setting.places())
        .extracting(LibraryPlaces.Place::file)
        .containsExactly("/setting.so");
    assertThat(setting.named()).isTrue();
    assertThat(LibraryPlaces.find(null, properties("/property.so"), environment).places())
        .extracting(LibraryPlaces.Place::file)
        .containsExactly("/property.so");
    assertThat(LibraryPlaces.find(null, properties(null), environment).places())
        .extracting(LibraryPlaces.Place::file)
        .containsExactly("/env.so");
    assertThat(LibraryPlaces.find(null, properties(" "), Map.of()).named()).isFalse();
  }

  @Test
  void installedWheelsComeAfterTheCLibraryInTheirOrder() throws IOException {
    Path venv = wheel("venv/lib/python3.12/site-packages");
    Path conda = wheel("conda/lib/python3.11/site-packages");
    Path user = wheel(".local/lib/python3.10/site-packages");
    Path pyenv = wheel(".pyenv/versions/3.11.7/lib/python3.11/site-packages");
    Path old = wheel(".cache/mooncake4j/engine/wheel-0.3.9");
    Path newest = wheel(".cache/mooncake4j/engine/wheel-0.3.13.post1");
    Path middle = wheel(".cache/mooncake4j/engine/wheel-0.3.13");
    Map<String, String> environment =
        Map.of(
            "VIRTUAL_ENV",
            home.resolve("venv").toString(),
            "CONDA_PREFIX",
            home.resolve("conda").toString());
    LibraryPlaces places = LibraryPlaces.find(null, properties(null), environment);
    assertThat(places.places().stream().map(LibraryPlaces.Place::file))
        .startsWith("libtransfer_engine.so")
        .containsSubsequence(
            Stream.of(venv, conda, user, pyenv, newest, middle, old).map(Path::toString).toList());
    assertThat(places.named()).isFalse();
  }

  @Test
  void theCacheMovesWithItsVariables() throws IOException {
    Path own = wheel("own/engine/a-1");
    Path shared = wheel("shared/mooncake4j/engine/a-1");
    String ownFolder = home.resolve("own").toString();
    String sharedFolder = home.resolve("shared").toString();
    assertThat(
            LibraryPlaces.find(
                    null,
                    properties(null),
                    Map.of("MOONCAKE4J_CACHE", ownFolder, "XDG_CACHE_HOME", sharedFolder))
                .places())
        .extracting(LibraryPlaces.Place::file)
        .contains(own.toString())
        .doesNotContain(shared.toString());
    assertThat(
            LibraryPlaces.find(null, properties(null), Map.of("XDG_CACHE_HOME", sharedFolder))
                .places())
        .extracting(LibraryPlaces.Place::file)
        .contains(shared.toString());
  }

  @Test
  void placesWithoutAFileAreTold() {
    LibraryPlaces places = LibraryPlaces.find(null, properties(null), Map.of());
    assertThat(places.empty())
        .contains(home.resolve(".cache/mooncake4j/engine/*/mooncake/engine.so").toString())
        .anyMatch(pattern -> pattern.startsWith("/usr/lib*/python3*"));
  }

  @Test
  void versionsCompareByTheirNumbers() {
    assertThat(
            Stream.of("a-0.3.9", "a-0.3.14", "a-0.3.13.post1", "a-0.3.13", "b")
                .sorted(LibraryPlaces.NEWEST_FIRST))
        .containsExactly("b", "a-0.3.14", "a-0.3.13.post1", "a-0.3.13", "a-0.3.9");
  }
}
