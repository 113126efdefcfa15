package dev.mooncake4j.engine.load;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Our library that gives the wheel's C++ class the engine's C API, and its functions beyond that.
 *
 * <p>It comes out of the jar into a temporary file that is deleted as soon as it is open. One per
 * class loader, since the bindings look symbols up in the class loader's libraries. Thread-safe.
 */
final class Adapter {
  private static final int MESSAGE_BYTES = 1024;

  private static @Nullable Adapter loaded;

  private final MethodHandle bind;
  private final MethodHandle create;
  private final MethodHandle requestSize;
  private final MethodHandle lastError;

  /** Loads it into this class loader. */
  private Adapter() {
    bind =
        function(
            "m4j_bind",
            FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG));
    create = function("m4j_create", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    requestSize = function("m4j_request_size", FunctionDescriptor.of(JAVA_LONG));
    lastError = function("m4j_last_error", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG));
  }

  private static MethodHandle function(String name, FunctionDescriptor descriptor) {
    return Linker.nativeLinker()
        .downcallHandle(SymbolLookup.loaderLookup().findOrThrow(name), descriptor);
  }

  /**
   * Loads the adapter, once: a second copy would stay in the shadow of the first, where the
   * bindings look symbols up.
   */
  static synchronized Adapter load() throws LibraryException {
    Adapter adapter = loaded;
    if (adapter != null) {
      return adapter;
    }
    withExtracted(
        "libmooncake4j_adapter.so",
        file -> {
          try {
            System.load(file.toString());
          } catch (UnsatisfiedLinkError e) {
            throw new LibraryException("the adapter does not load: " + e.getMessage(), false, e);
          }
        });
    adapter = new Adapter();
    loaded = adapter;
    return adapter;
  }

  /** Opens the stand-ins for Python's data, for every library opened later. */
  static void openPythonStandIns(DynamicLinker linker) throws LibraryException {
    withExtracted(
        "libmooncake4j_python.so",
        file -> linker.open(file.toString(), DynamicLinker.LAZY | DynamicLinker.GLOBAL));
  }

  /** What is done with an extracted library while its file is there. */
  @FunctionalInterface
  private interface Use {
    void of(Path file) throws LibraryException;
  }

  private static void withExtracted(String name, Use use) throws LibraryException {
    String resource = "/META-INF/native/" + platform() + "/" + name;
    try (InputStream packaged = Adapter.class.getResourceAsStream(resource)) {
      if (packaged == null) {
        throw new LibraryException(
            "this build has no " + resource + ": build transfer-native on this kind of machine");
      }
      Path folder = Files.createTempDirectory("mooncake4j-");
      Path file = folder.resolve(name);
      try {
        Files.copy(packaged, file);
        use.of(file);
      } finally {
        Files.deleteIfExists(file);
        Files.delete(folder);
      }
    } catch (IOException e) {
      throw new LibraryException(
          "java.io.tmpdir="
              + System.getProperty("java.io.tmpdir")
              + " takes no library: "
              + e
              + "; name a folder that can be written to and executed from",
          false,
          e);
    }
  }

  private static String platform() {
    String architecture = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    return "linux-" + (architecture.equals("amd64") ? "x86_64" : architecture);
  }

  /**
   * Binds to a wheel's library and tries it, once.
   *
   * @param server the loopback address that it is tried at
   * @return an engine to be destroyed, or a null pointer
   * @throws LibraryException if the library cannot be used
   */
  MemorySegment bind(MemorySegment library, String server) throws LibraryException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment why = arena.allocate(MESSAGE_BYTES);
      MemorySegment throwaway = arena.allocate(ADDRESS);
      int code =
          (int)
              bind.invokeExact(
                  library, arena.allocateFrom(server), throwaway, why, (long) MESSAGE_BYTES);
      if (code != 0) {
        throw new LibraryException(why.getString(0));
      }
      return throwaway.get(ADDRESS, 0);
    } catch (LibraryException | RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  /** Creates an engine that takes only these RDMA devices, all where the list is empty. */
  MemorySegment create(String metadata, String server, String devices) {
    try (Arena arena = Arena.ofConfined()) {
      return (MemorySegment)
          create.invokeExact(
              arena.allocateFrom(metadata),
              arena.allocateFrom(server),
              arena.allocateFrom(devices));
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  /** Bytes of a transfer request in the library. */
  int requestSize() {
    try {
      return Math.toIntExact((long) requestSize.invokeExact());
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  /** What the calling thread's last call said; empty if it said nothing. */
  String lastError() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment message = arena.allocate(MESSAGE_BYTES);
      long length = (long) lastError.invokeExact(message, (long) MESSAGE_BYTES);
      return length == 0 ? "" : message.getString(0);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }
}
