package dev.mooncake4j.engine.load;

import dev.mooncake4j.connector.EngineUnavailableException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tries the places one after the other, keeps what each said, and remembers the outcome.
 *
 * <p>A library that is bound stays the process's own. A search that failed is not repeated; another
 * file can still be asked for.
 */
final class LibraryLoader {
  static final LibraryLoader INSTANCE = new LibraryLoader();

  private static final Logger LOG = LoggerFactory.getLogger(LibraryLoader.class);
  private static final Pattern MISSING =
      Pattern.compile("(\\S+): cannot open shared object file: No such file or directory");

  private @Nullable EngineLibrary bound;
  private final Map<String, EngineUnavailableException> failures = new LinkedHashMap<>();

  private LibraryLoader() {}

  synchronized EngineLibrary open(@Nullable Path setting, boolean ipv6) {
    EngineLibrary library = bound;
    if (library != null) {
      if (setting != null && !isSame(setting, library.file())) {
        throw new EngineUnavailableException(
            "library="
                + setting
                + " cannot be opened beside "
                + library.file()
                + ", which this process uses: one engine library per process",
            null);
      }
      return library;
    }
    EngineUnavailableException failure = failures.get(String.valueOf(setting));
    if (failure != null) {
      throw failure;
    }
    try {
      bound = search(setting, ipv6);
      return bound;
    } catch (EngineUnavailableException e) {
      failures.put(String.valueOf(setting), e);
      throw e;
    }
  }

  private static boolean isSame(Path a, Path b) {
    try {
      return Files.isSameFile(a, b);
    } catch (IOException e) {
      // One of them is not there any more.
      return a.equals(b);
    }
  }

  private static EngineLibrary search(@Nullable Path setting, boolean ipv6) {
    LibraryPlaces places = LibraryPlaces.find(setting, System.getProperties(), System.getenv());
    String system = System.getProperty("os.name");
    if (!system.equals("Linux")) {
      throw new EngineUnavailableException(
          "os.name=" + system + ": the transfer engine runs on Linux only", null);
    }
    DynamicLinker linker;
    try {
      linker = new DynamicLinker();
    } catch (IllegalCallerException e) {
      throw accessDenied(places, e);
    }
    for (String variable : List.of("MC_USE_TENT", "MC_USE_TEV1")) {
      if (linker.environment(variable) != null) {
        throw new EngineUnavailableException(
            variable
                + " is set: it replaces the engine by one that the connector does not drive; unset it",
            null);
      }
    }
    Map<String, String> set = EngineEnvironment.apply(linker, ipv6);
    EngineLibrary library = tryAll(linker, places);
    LOG.info("engine library={}; set for it: {}", library, set);
    return library;
  }

  /** The library of the first place that has one. */
  static EngineLibrary tryAll(DynamicLinker linker, LibraryPlaces places) {
    Map<LibraryPlaces.Place, LibraryException> failed = new LinkedHashMap<>();
    for (LibraryPlaces.Place place : places.places()) {
      try {
        EngineLibrary library = EngineLibrary.bind(linker, place.file());
        failed.forEach((other, why) -> LOG.debug("{} not used: {}", other, why.getMessage()));
        return library;
      } catch (LibraryException e) {
        failed.put(place, e);
        if (e.isLasting()) {
          break;
        }
      }
    }
    throw unavailable(places, failed);
  }

  private static EngineUnavailableException accessDenied(
      LibraryPlaces places, IllegalCallerException cause) {
    return new EngineUnavailableException(
        "no engine library can be opened: native access is denied ("
            + cause.getMessage()
            + "). Not tried: "
            + places.places()
            + ". Next: start java with "
            + nativeAccessFlag(),
        cause);
  }

  private static String nativeAccessFlag() {
    Module module = LibraryLoader.class.getModule();
    return "--enable-native-access=" + (module.isNamed() ? module.getName() : "ALL-UNNAMED");
  }

  private static EngineUnavailableException unavailable(
      LibraryPlaces places, Map<LibraryPlaces.Place, LibraryException> failed) {
    StringBuilder message = new StringBuilder("no engine library can be used. Tried:");
    List<String> next = new ArrayList<>();
    failed.forEach(
        (place, why) -> {
          message.append("\n  ").append(place).append(": ").append(why.getMessage());
          String hint = hint(place, String.valueOf(why.getMessage()), places.named());
          if (hint != null && !next.contains(hint)) {
            next.add(hint);
          }
        });
    places.empty().forEach(pattern -> message.append("\n  no ").append(pattern));
    message.append("\nNext: ");
    next.forEach(hint -> message.append(hint).append("; "));
    if (places.isSetting()) {
      // While it is set nothing else is looked at: to install or name another library is no help.
      message.append("correct engineLibrary, or remove it and the library is searched for");
      return exception(message, failed);
    }
    message
        .append("install a wheel with `pip install mooncake-transfer-engine-non-cuda` (with a GPU")
        .append(" mooncake-transfer-engine for CUDA 12, -cuda13 for CUDA 13), or name a library")
        .append(" with -D")
        .append(LibraryPlaces.PROPERTY)
        .append("=FILE or ")
        .append(LibraryPlaces.VARIABLE)
        .append("=FILE");
    return exception(message, failed);
  }

  private static EngineUnavailableException exception(
      StringBuilder message, Map<LibraryPlaces.Place, LibraryException> failed) {
    EngineUnavailableException e =
        new EngineUnavailableException(
            message.toString(), failed.isEmpty() ? null : failed.values().iterator().next());
    failed.values().forEach(e::addSuppressed);
    return e;
  }

  /** What would mend it, where the message tells. */
  private static @Nullable String hint(LibraryPlaces.Place place, String message, boolean named) {
    Matcher missing = MISSING.matcher(message);
    if (missing.find()) {
      String soname = missing.group(1);
      if (soname.equals(place.file())) {
        return named ? "there is no file " + soname + ": correct its name" : null;
      }
      return soname + " is missing: " + provider(soname);
    }
    if (message.contains("invalid ELF header") || message.contains("file too short")) {
      return place.file() + " is not a shared library: name another file";
    }
    if (message.contains("wrong ELF class")
        || message.contains("cannot open shared object file: Exec format")) {
      return place.file() + " is for another kind of machine: install the wheel for this one";
    }
    return null;
  }

  /** Who brings a missing library. */
  private static String provider(String soname) {
    if (soname.startsWith("libcuda") || soname.startsWith("libnv") || soname.startsWith("libcu")) {
      return "this wheel is built for another CUDA than this host has; install the one for it";
    }
    if (soname.startsWith("libibverbs")) {
      return "apt-get install libibverbs1";
    }
    if (soname.startsWith("libmlx5")) {
      return "apt-get install ibverbs-providers";
    }
    if (soname.startsWith("libnuma")) {
      return "apt-get install libnuma1";
    }
    if (soname.startsWith("libcurl")) {
      return "apt-get install libcurl4";
    }
    return "install the package that has it";
  }
}
