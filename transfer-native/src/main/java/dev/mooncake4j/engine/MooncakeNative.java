package dev.mooncake4j.engine;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.engine.load.EngineLibrary;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Whether the native transfer engine can be used in this process.
 *
 * <p>The first question opens the library that {@link NativeTransferEngineProvider} would find and
 * tries it with real calls, which takes up to some seconds; later ones are answered from memory.
 * Thread-safe.
 */
public final class MooncakeNative {
  private MooncakeNative() {}

  /** Whether an engine can be opened without naming a library. */
  public static boolean isAvailable() {
    return unavailabilityCause() == null;
  }

  /** Why no engine can be opened, with every place tried; {@code null} if one can. */
  public static @Nullable EngineUnavailableException unavailabilityCause() {
    try {
      ensureAvailable();
      return null;
    } catch (EngineUnavailableException e) {
      return e;
    }
  }

  /**
   * Opens the library if none is open yet, and says which it is.
   *
   * @param library the file to open, or {@code null} to search for one
   * @throws EngineUnavailableException if there is none, with every place tried, or another one is
   *     open already
   */
  public static EngineInfo open(@Nullable Path library) {
    EngineLibrary opened = EngineLibrary.open(library, false);
    return new EngineInfo(opened.file(), opened.binding(), opened.acknowledgesTcp());
  }

  /**
   * Opens the library if it is not yet open.
   *
   * @throws EngineUnavailableException if there is none, with every place tried
   */
  public static void ensureAvailable() {
    EngineLibrary library = EngineLibrary.open(null, false);
    assert library.file() != null;
  }
}
