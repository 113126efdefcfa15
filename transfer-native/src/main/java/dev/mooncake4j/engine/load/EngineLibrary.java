package dev.mooncake4j.engine.load;

import static java.nio.charset.StandardCharsets.US_ASCII;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.engine.ffi.TransferEngineC;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The engine library that this process has opened and bound to: one for the life of the process.
 *
 * <p>Either a library that exports the C API, or the Python wheel's {@code engine.so} behind our
 * {@link Adapter}; both are called through {@link TransferEngineC}. Thread-safe.
 */
public final class EngineLibrary {

  /** What a C library must export: the functions that the connector calls. */
  static final List<String> C_API =
      List.of(
          "createTransferEngine",
          "destroyTransferEngine",
          "discoverTopology",
          "getLocalIpAndPort",
          "installTransport",
          "openSegment",
          "openSegmentNoCache",
          "removeLocalSegment",
          "registerLocalMemory",
          "unregisterLocalMemory",
          "allocateBatchID",
          "submitTransfer",
          "getTransferStatus",
          "freeBatchID");

  /** A member of the C++ class, by which a wheel's library is known. */
  private static final String CPP_CLASS = "_ZN8mooncake14TransferEngineD1Ev";

  private final DynamicLinker linker;
  private final Path file;
  private final @Nullable Adapter adapter;
  private final boolean acknowledgesTcp;

  private EngineLibrary(DynamicLinker linker, Path file, @Nullable Adapter adapter) {
    this.linker = linker;
    this.file = file;
    this.adapter = adapter;
    this.acknowledgesTcp = mentions(file, "MC_TCP_PROTO");
  }

  /**
   * Opens a library, once: later calls get the same one.
   *
   * @param setting the file asked for, or {@code null} to search
   * @param ipv6 whether the first engine is to be reached at an IPv6 address
   * @throws EngineUnavailableException if no library can be used, or another one than the one asked
   *     for is open
   */
  public static EngineLibrary open(@Nullable Path setting, boolean ipv6) {
    return OwnThread.call("m4j-engine-load", () -> LibraryLoader.INSTANCE.open(setting, ipv6));
  }

  /** Binds to what a place names. */
  static EngineLibrary bind(DynamicLinker linker, String name) throws LibraryException {
    MemorySegment handle = openWithPython(linker, name);
    List<String> missing = new ArrayList<>();
    MemorySegment known = null;
    for (String function : C_API) {
      MemorySegment address = linker.symbol(handle, function);
      if (address == null) {
        missing.add(function);
      } else {
        known = address;
      }
    }
    MemorySegment member = linker.symbol(handle, CPP_CLASS);
    if (missing.isEmpty() && known != null) {
      Path file = fileOf(linker, known, name);
      try {
        System.load(file.toAbsolutePath().toString());
      } catch (UnsatisfiedLinkError e) {
        throw new LibraryException(file + " does not load: " + e.getMessage(), false, e);
      }
      EngineLibrary library = new EngineLibrary(linker, file, null);
      linkHotCalls();
      library.tryOut();
      return library;
    }
    if (known != null) {
      throw new LibraryException(
          "it lacks " + String.join(", ", missing) + " of the engine's C API: it is too old");
    }
    if (member == null) {
      throw new LibraryException(
          "it exports neither the engine's C API nor its C++ class: it is no engine library, or too"
              + " old (0.3.8 is the first that works)");
    }
    Adapter adapter = Adapter.load();
    EngineLibrary library = new EngineLibrary(linker, fileOf(linker, member, name), adapter);
    linkHotCalls();
    MemorySegment throwaway = adapter.bind(handle, library.loopback());
    if (throwaway.address() != 0) {
      library.destroy(throwaway);
    }
    return library;
  }

  /** A wheel's library needs data of Python's, from a Python in this process or our stand-ins. */
  private static MemorySegment openWithPython(DynamicLinker linker, String name)
      throws LibraryException {
    try {
      return linker.open(name, DynamicLinker.LAZY);
    } catch (LibraryException e) {
      String message = e.getMessage();
      if (message == null || !message.matches("(?s).*undefined symbol: _?Py.*")) {
        throw e;
      }
    }
    // Stand-ins beside a real Python would be what that Python's later modules bind to.
    String python = PythonInProcess.find();
    if (python == null || !linker.isOpen(python, DynamicLinker.LAZY | DynamicLinker.GLOBAL)) {
      Adapter.openPythonStandIns(linker);
    }
    return linker.open(name, DynamicLinker.LAZY);
  }

  private static Path fileOf(DynamicLinker linker, MemorySegment address, String name) {
    Path file = linker.fileOf(address);
    return file == null ? Path.of(name) : file;
  }

  /** Links what the first transfer calls, which takes some ten milliseconds, before it does. */
  private static void linkHotCalls() {
    List<MethodHandle> linked =
        List.of(
            TransferEngineC.openSegment$handle(),
            TransferEngineC.registerLocalMemory$handle(),
            TransferEngineC.allocateBatchID$handle(),
            TransferEngineC.submitTransfer$handle(),
            TransferEngineC.getTransferStatus$handle(),
            TransferEngineC.freeBatchID$handle());
    assert !linked.isEmpty();
  }

  /** One real engine, so that what cannot work is found here and not at the first transfer. */
  private void tryOut() throws LibraryException {
    MemorySegment engine = create(loopback(), List.of());
    if (engine.address() == 0) {
      throw new LibraryException("the engine does not start: " + explained(), true, null);
    }
    destroy(engine);
  }

  /**
   * Creates an engine without a transport.
   *
   * @param host the address that peers reach it at
   * @param devices the RDMA devices that it may use, all if empty
   * @return the engine, or a null pointer: see {@link #explained}
   */
  public MemorySegment create(String host, List<String> devices) {
    if (adapter != null) {
      return adapter.create("P2PHANDSHAKE", host, String.join(",", devices));
    }
    if (!devices.isEmpty()) {
      // The C API takes no whitelist; the engine reads this one when it looks for devices.
      linker.setEnvironmentDefault("MC_TE_FILTERS", String.join(",", devices));
    }
    try (Arena arena = Arena.ofConfined()) {
      return TransferEngineC.createTransferEngine(
          arena.allocateFrom("P2PHANDSHAKE"),
          arena.allocateFrom(host),
          arena.allocateFrom(""),
          0,
          0);
    }
  }

  /** The port that peers reach an engine at, or -1. */
  public static int port(MemorySegment engine) {
    String address;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocate(512);
      if (TransferEngineC.getLocalIpAndPort(engine, text, text.byteSize()) != 0) {
        return -1;
      }
      address = text.getString(0);
    }
    // An IPv6 address comes without brackets.
    try {
      return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    } catch (NumberFormatException e) {
      return -1;
    }
  }

  /**
   * Destroys an engine; nothing may use it any more. Takes some milliseconds, or a second where the
   * engine's listener does not notice at once.
   */
  public void destroy(MemorySegment engine) {
    ListenerWaker waker = ListenerWaker.start(port(engine));
    try {
      TransferEngineC.destroyTransferEngine(engine);
    } finally {
      waker.stop();
    }
  }

  /** What the engine said about the calling thread's last failed call, or where to look. */
  public String explained() {
    String said = adapter == null ? "" : adapter.lastError();
    return said.isEmpty() ? "the engine's log on stderr has the reason" : "\"" + said + "\"";
  }

  /** The file that it was opened from. */
  public Path file() {
    return file;
  }

  /** Whether the engine uses IPv6 sockets, and only those. */
  public boolean ipv6() {
    String value = environment(EngineEnvironment.IPV6);
    return value != null && !value.isEmpty();
  }

  /** Whether a tcp write is complete only when the peer has said that it has the bytes. */
  public boolean acknowledgesTcp() {
    return acknowledgesTcp && !"1".equals(environment("MC_TCP_PROTO"));
  }

  /** A variable as the engine sees it, or {@code null}. */
  public @Nullable String environment(String name) {
    return linker.environment(name);
  }

  private String loopback() {
    return ipv6() ? "::1" : "127.0.0.1";
  }

  /** How it is called. */
  public String binding() {
    return adapter == null ? "C API" : "C++ class, request=" + adapter.requestSize() + " bytes";
  }

  @Override
  public String toString() {
    return file + " (" + binding() + ")";
  }

  /** Whether a file has a text in it: releases before acknowledged writes lack their variable. */
  private static boolean mentions(Path file, String text) {
    byte[] wanted = text.getBytes(US_ASCII);
    try (FileChannel channel = FileChannel.open(file);
        Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
      MemorySegment sought = MemorySegment.ofArray(wanted);
      for (long at = 0; at + wanted.length <= bytes.byteSize(); at++) {
        if (bytes.get(ValueLayout.JAVA_BYTE, at) == wanted[0]
            && MemorySegment.mismatch(bytes, at, at + wanted.length, sought, 0, wanted.length)
                < 0) {
          return true;
        }
      }
      return false;
    } catch (IOException e) {
      // Opened a moment ago and not readable now: nothing is known, so nothing is promised.
      return false;
    }
  }
}
