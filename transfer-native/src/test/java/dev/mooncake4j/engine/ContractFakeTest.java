package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.testkit.TransferEngineContract;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;

/** An engine on a library with the C API keeps the contract, and never misuses the library. */
@Tag(FakeEngine.TAG)
class ContractFakeTest extends TransferEngineContract {

  @BeforeAll
  static void libraryIsThere() {
    FakeEngine.require();
  }

  @BeforeEach
  void forgetOtherTests() {
    FakeEngine.reset();
  }

  @AfterEach
  void theLibraryWasNotMisused() {
    assertThat(FakeEngine.count("early_frees")).isZero();
    if (restsBeforeFree()) {
      assertThat(FakeEngine.count("hasty_frees")).isZero();
    }
    assertThat(FakeEngine.count("double_frees")).isZero();
    assertThat(FakeEngine.count("uses_after_free")).isZero();
    assertThat(FakeEngine.count("destroyed_below")).isZero();
  }

  /** Whether threads of the engine are taken to use a batch for a moment longer. */
  boolean restsBeforeFree() {
    return true;
  }

  @Override
  protected TransferEngine open(EngineConfig config) {
    return new NativeTransferEngineProvider().open(config);
  }

  @Override
  protected @Nullable TransferEngine reopenAt(EngineConfig config, int port) {
    FakeEngine.nextPort(port);
    try {
      return open(config);
    } finally {
      FakeEngine.nextPort(port + 1000);
    }
  }
}
