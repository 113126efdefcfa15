package dev.mooncake4j.engine;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import dev.mooncake4j.engine.load.EngineLibrary;
import dev.mooncake4j.engine.load.OwnThread;

/**
 * Opens native transfer engines. Thread-safe.
 *
 * <p>The library is the configuration's file; without one the file of the system property {@code
 * mooncake4j.engine.library}, or of the environment variable {@code MOONCAKE4J_ENGINE_LIBRARY}; and
 * otherwise {@code libtransfer_engine.so} on the loader's path, or the {@code mooncake/engine.so}
 * of an installed Python wheel. A process uses one library. Several engines can be open at a time.
 */
public final class NativeTransferEngineProvider implements TransferEngineProvider {

  /** For {@link java.util.ServiceLoader}. */
  public NativeTransferEngineProvider() {}

  @Override
  public String name() {
    return "native";
  }

  @Override
  public TransferEngine open(EngineConfig config) {
    boolean ipv6 = HostAddresses.bare(config.host()).indexOf(':') >= 0;
    EngineLibrary library = EngineLibrary.open(config.library(), ipv6);
    return OwnThread.call("m4j-engine-start", () -> NativeTransferEngine.open(library, config));
  }
}
