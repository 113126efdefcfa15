package dev.mooncake4j.engine.load;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * {@code dlopen} and its kin, and the environment that native code sees.
 *
 * <p>{@link java.lang.foreign.SymbolLookup#libraryLookup} opens libraries as local and hides the
 * linker's message, and {@link System#getenv} is a copy made when the JVM started; this calls the C
 * library itself. Stateless, but {@code dlerror} is per thread: on a platform thread only.
 */
final class DynamicLinker {
  static final int LAZY = 0x1;
  static final int NO_LOAD = 0x4;
  static final int GLOBAL = 0x100;

  /** Bytes of a {@code Dl_info}; its first field is the file's name. */
  private static final long DL_INFO = 32;

  private final MethodHandle dlopen;
  private final MethodHandle dlsym;
  private final MethodHandle dlerror;
  private final MethodHandle dladdr;
  private final MethodHandle getenv;
  private final MethodHandle setenv;

  /**
   * Binds to the C library.
   *
   * @throws IllegalCallerException if native access is denied
   */
  DynamicLinker() {
    dlopen = function("dlopen", FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_INT));
    dlsym = function("dlsym", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS));
    dlerror = function("dlerror", FunctionDescriptor.of(ADDRESS));
    dladdr = function("dladdr", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
    getenv = function("getenv", FunctionDescriptor.of(ADDRESS, ADDRESS));
    setenv = function("setenv", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));
  }

  private static MethodHandle function(String name, FunctionDescriptor descriptor) {
    Linker linker = Linker.nativeLinker();
    return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), descriptor);
  }

  /**
   * Opens a library and keeps it open.
   *
   * @param file a path, or a name for the linker to search
   * @throws LibraryException with the linker's message
   */
  MemorySegment open(String file, int flags) throws LibraryException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment handle = (MemorySegment) dlopen.invokeExact(arena.allocateFrom(file), flags);
      if (!isNull(handle)) {
        return handle;
      }
      String message = string((MemorySegment) dlerror.invokeExact());
      throw new LibraryException(message == null ? file + " does not open" : message);
    } catch (Throwable e) {
      throw rethrown(e);
    }
  }

  /** Whether a library is open already; {@code flags} are then added to it. */
  boolean isOpen(String file, int flags) {
    try {
      open(file, flags | NO_LOAD);
      return true;
    } catch (LibraryException e) {
      return false;
    }
  }

  /** Address of a symbol of a library, or {@code null}. */
  @Nullable MemorySegment symbol(MemorySegment handle, String name) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment found = (MemorySegment) dlsym.invokeExact(handle, arena.allocateFrom(name));
      return isNull(found) ? null : found;
    } catch (Throwable e) {
      throw unchecked(e);
    }
  }

  /** The file that an address was loaded from, or {@code null}. */
  @Nullable Path fileOf(MemorySegment address) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment info = arena.allocate(DL_INFO, 8);
      if ((int) dladdr.invokeExact(address, info) == 0) {
        return null;
      }
      String name = string(info.get(ADDRESS, 0));
      return name == null ? null : Path.of(name);
    } catch (Throwable e) {
      throw unchecked(e);
    }
  }

  /** A variable as native code sees it, or {@code null}. */
  @Nullable String environment(String name) {
    try (Arena arena = Arena.ofConfined()) {
      return string((MemorySegment) getenv.invokeExact(arena.allocateFrom(name)));
    } catch (Throwable e) {
      throw unchecked(e);
    }
  }

  /** Sets a variable for native code, unless it is set; whether it was set now. */
  boolean setEnvironmentDefault(String name, String value) {
    if (environment(name) != null) {
      return false;
    }
    try (Arena arena = Arena.ofConfined()) {
      return (int) setenv.invokeExact(arena.allocateFrom(name), arena.allocateFrom(value), 0) == 0;
    } catch (Throwable e) {
      throw unchecked(e);
    }
  }

  private static boolean isNull(MemorySegment pointer) {
    return pointer.address() == 0;
  }

  private static @Nullable String string(MemorySegment pointer) {
    return isNull(pointer) ? null : pointer.reinterpret(Long.MAX_VALUE).getString(0);
  }

  private static LibraryException rethrown(Throwable e) {
    if (e instanceof LibraryException known) {
      return known;
    }
    throw unchecked(e);
  }

  /** A downcall throws nothing checked. */
  private static RuntimeException unchecked(Throwable e) {
    switch (e) {
      case RuntimeException known -> throw known;
      case Error known -> throw known;
      default -> throw new AssertionError(e);
    }
  }
}
