package dev.mooncake4j.engine;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.engine.load.EngineLibrary;
import dev.mooncake4j.engine.load.OwnThread;
import java.util.List;

/** Engines for tests. */
final class Engines {
  private Engines() {}

  /** Fails where no engine can be opened: these tests are not to be skipped unseen. */
  static void require() {
    EngineUnavailableException cause = MooncakeNative.unavailabilityCause();
    if (cause != null) {
      throw new AssertionError(
          "this test needs the native engine; see \"Getting the engine\" in transfer-native/README.md",
          cause);
    }
  }

  static EngineConfig config() {
    return config("tcp");
  }

  static EngineConfig config(String protocol) {
    return new EngineConfig("127.0.0.1", protocol, List.of(), null, NanoClock.SYSTEM);
  }

  /** An engine that splits its writes, as it does for transports that copy in the submitter. */
  static TransferEngine openParallel(EngineConfig config, int lanes, int window) {
    EngineLibrary library = EngineLibrary.open(config.library(), false);
    return OwnThread.call(
        "engine-start",
        () ->
            NativeTransferEngine.open(
                library,
                config,
                EngineStart.start(library, config),
                new SubmitLanes.Settings(lanes, window)));
  }

  static TransferEngine open() {
    return new NativeTransferEngineProvider().open(config());
  }
}
