package dev.mooncake4j.engine.load;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.jspecify.annotations.Nullable;

/**
 * Where the engine's library is looked for, best first.
 *
 * <p>A file that somebody named is the only place: what was asked for is not replaced by another
 * library in silence. Otherwise {@code libtransfer_engine.so} on the loader's path, then the
 * library of an installed Python wheel, then wheels in the project's own download folder, newest
 * first.
 *
 * @param places what to try, in this order
 * @param empty patterns that no file matched
 * @param named whether somebody named the one place
 */
record LibraryPlaces(List<Place> places, List<String> empty, boolean named) {

  /** What names a library file in {@code ConnectorConfig}; it goes before all else. */
  static final String SETTING = "setting engineLibrary";

  /** The system property that names a library file. */
  static final String PROPERTY = "mooncake4j.engine.library";

  /** The environment variable that names a library file. */
  static final String VARIABLE = "MOONCAKE4J_ENGINE_LIBRARY";

  /** The library with the C API, as the linker searches it. */
  static final String C_LIBRARY = "libtransfer_engine.so";

  private static final String WHEEL_FILE = "mooncake/engine.so";

  /**
   * One library to try.
   *
   * @param origin why it is tried
   * @param file its path, or a name for the linker to search
   */
  record Place(String origin, String file) {
    @Override
    public String toString() {
      return origin + ": " + file;
    }
  }

  /** All places, from the settings and from what is installed. */
  static LibraryPlaces find(
      @Nullable Path setting, Properties properties, Map<String, String> environment) {
    if (setting != null) {
      return named(SETTING, setting.toString());
    }
    String property = properties.getProperty(PROPERTY);
    if (property != null && !property.isBlank()) {
      return named("system property " + PROPERTY, property);
    }
    String variable = environment.get(VARIABLE);
    if (variable != null && !variable.isBlank()) {
      return named("environment variable " + VARIABLE, variable);
    }
    List<Place> places = new ArrayList<>();
    List<String> empty = new ArrayList<>();
    places.add(new Place("loader's path", C_LIBRARY));
    Path home = Path.of(properties.getProperty("user.home", "/"));
    for (Wheels wheels : installations(home, environment)) {
      List<Path> found = wheels.find();
      if (found.isEmpty()) {
        empty.add(wheels.pattern());
      }
      found.forEach(file -> places.add(new Place(wheels.origin, file.toString())));
    }
    return new LibraryPlaces(List.copyOf(places), List.copyOf(empty), false);
  }

  private static LibraryPlaces named(String origin, String file) {
    return new LibraryPlaces(List.of(new Place(origin, file)), List.of(), true);
  }

  /** Whether the one place is that of {@code engineLibrary}. */
  boolean isSetting() {
    return named && places.getFirst().origin().equals(SETTING);
  }

  private static List<Wheels> installations(Path home, Map<String, String> environment) {
    List<Wheels> all = new ArrayList<>();
    for (String variable : List.of("VIRTUAL_ENV", "CONDA_PREFIX")) {
      String prefix = environment.get(variable);
      if (prefix != null && !prefix.isBlank()) {
        all.add(new Wheels(variable, Path.of(prefix), "lib*/python3*/site-packages"));
      }
    }
    all.add(new Wheels("user's packages", home.resolve(".local"), "lib*/python3*/site-packages"));
    for (String prefix : List.of("/usr/local", "/usr")) {
      all.add(new Wheels("system packages", Path.of(prefix), "lib*/python3*/*-packages"));
    }
    String pyenv = environment.get("PYENV_ROOT");
    Path pyenvRoot = pyenv == null || pyenv.isBlank() ? home.resolve(".pyenv") : Path.of(pyenv);
    all.add(new Wheels("pyenv", pyenvRoot, "versions/*/lib/python3*/site-packages"));
    all.add(new Wheels("downloads", cache(home, environment).resolve("engine"), "*"));
    return all;
  }

  private static Path cache(Path home, Map<String, String> environment) {
    String own = environment.get("MOONCAKE4J_CACHE");
    if (own != null && !own.isBlank()) {
      return Path.of(own);
    }
    String shared = environment.get("XDG_CACHE_HOME");
    Path base = shared == null || shared.isBlank() ? home.resolve(".cache") : Path.of(shared);
    return base.resolve("mooncake4j");
  }

  /** Folders below a root, by a pattern with one {@code *} or none in each name. */
  private record Wheels(String origin, Path root, String folders) {

    String pattern() {
      return root.resolve(folders).resolve(WHEEL_FILE).toString();
    }

    /** The files that are there, newest version first. */
    List<Path> find() {
      List<Path> at = List.of(root);
      for (String glob : folders.split("/", -1)) {
        List<Path> below = new ArrayList<>();
        for (Path folder : at) {
          below.addAll(children(folder, glob));
        }
        at = below;
      }
      return at.stream().map(folder -> folder.resolve(WHEEL_FILE)).filter(Files::exists).toList();
    }

    private static List<Path> children(Path folder, String glob) {
      if (glob.indexOf('*') < 0) {
        Path child = folder.resolve(glob);
        return Files.isDirectory(child) ? List.of(child) : List.of();
      }
      List<Path> found = new ArrayList<>();
      try (DirectoryStream<Path> matching = Files.newDirectoryStream(folder, glob)) {
        matching.forEach(found::add);
      } catch (IOException e) {
        // Not there, or not ours to read: nothing is found in it.
        return List.of();
      }
      found.sort(Comparator.comparing(path -> path.getFileName().toString(), NEWEST_FIRST));
      return found;
    }
  }

  /** Compares runs of digits as numbers, so that 0.3.13 comes before 0.3.9. */
  static final Comparator<String> NEWEST_FIRST = LibraryPlaces::compareVersions;

  private static int compareVersions(String a, String b) {
    String[] left = split(a);
    String[] right = split(b);
    for (int i = 0; i < Math.min(left.length, right.length); i++) {
      boolean numbers = isNumber(left[i]) && isNumber(right[i]);
      int order =
          numbers
              ? Long.compare(Long.parseLong(right[i]), Long.parseLong(left[i]))
              : right[i].compareTo(left[i]);
      if (order != 0) {
        return order;
      }
    }
    return Integer.compare(right.length, left.length);
  }

  private static String[] split(String name) {
    return name.split("(?<=\\d)(?=\\D)|(?<=\\D)(?=\\d)", -1);
  }

  private static boolean isNumber(String part) {
    return !part.isEmpty() && part.length() <= 18 && part.charAt(0) >= '0' && part.charAt(0) <= '9';
  }
}
