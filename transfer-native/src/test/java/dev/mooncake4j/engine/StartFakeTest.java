package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import java.nio.file.Path;
import java.util.List;
import java.util.ServiceLoader;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Starting engines, and registering memory, on a library with the C API. */
@Tag(FakeEngine.TAG)
class StartFakeTest {

  @BeforeAll
  static void libraryIsThere() {
    FakeEngine.require();
  }

  @BeforeEach
  void forgetOtherTests() {
    FakeEngine.reset();
  }

  @AfterEach
  void nothingIsLeft() {
    assertThat(FakeEngine.count("engines")).isZero();
    assertThat(FakeEngine.count("destroyed_below")).isZero();
  }

  private static EngineConfig config(String host, String protocol) {
    return new EngineConfig(host, protocol, List.of(), null, NanoClock.SYSTEM);
  }

  private static TransferEngine open(EngineConfig config) {
    return new NativeTransferEngineProvider().open(config);
  }

  @Test
  void theProviderIsFoundByName() {
    assertThat(ServiceLoader.load(TransferEngineProvider.class))
        .extracting(TransferEngineProvider::name)
        .contains("native");
  }

  @Test
  void theTransportAskedForIsInstalled() {
    try (TransferEngine engine = open(config("127.0.0.1", "nvlink_intra"))) {
      assertThat(engine.transport()).isEqualTo("nvlink_intra");
      assertThat(engine.completionProvesArrival()).isTrue();
    }
  }

  @Test
  void aTransportThatTheLibraryLacksIsRefusedAndUndone() {
    assertThatThrownBy(() -> open(config("127.0.0.1", "carrier_pigeon")))
        .isInstanceOf(TransferEngineException.class)
        .hasMessageContaining("installTransport")
        .hasMessageContaining("carrier_pigeon");
  }

  @Test
  void anEngineThatDoesNotStartIsAnError() {
    assertThatThrownBy(() -> open(config("refused", "tcp")))
        .isInstanceOf(TransferEngineException.class)
        .hasMessageContaining("createTransferEngine")
        .hasMessageContaining("host=refused");
  }

  @Test
  void anIpv6HostNeedsAnEngineOpenedForIt() {
    assertThatThrownBy(() -> open(config("::1", "tcp")))
        .isInstanceOf(TransferEngineException.class)
        .hasMessageContaining("MC_USE_IPV6=1");
  }

  @Test
  void anotherLibraryBesideTheFirstIsRefused() {
    EngineConfig other =
        new EngineConfig(
            "127.0.0.1", "tcp", List.of(), Path.of("/nowhere/engine.so"), NanoClock.SYSTEM);
    assertThatThrownBy(() -> open(other))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("/nowhere/engine.so")
        .hasMessageContaining("libtransfer_engine.so");
    EngineConfig same =
        new EngineConfig(
            "127.0.0.1",
            "tcp",
            List.of(),
            Path.of(System.getProperty("mooncake4j.engine.library")),
            NanoClock.SYSTEM);
    open(same).close();
  }

  @Test
  void aRefusedRegistrationIsRolledBackAndTellsOfDeviceMemory() {
    try (TransferEngine engine = open(config("127.0.0.1", "tcp"))) {
      MemoryRange good = new MemoryRange(0x10000, 0x1000, "cpu:0");
      MemoryRange bad = new MemoryRange(0x20000, 0x1000, "cuda:9");
      assertThatThrownBy(() -> engine.register(List.of(good, bad)))
          .isInstanceOfSatisfying(
              TransferEngineException.class,
              e -> {
                assertThat(e.code()).isEqualTo(-202);
                assertThat(e.operation()).isEqualTo("registerLocalMemory");
              })
          .hasMessageContaining("WITH_NVIDIA_PEERMEM")
          .hasMessageContaining("Bad address [14]")
          .hasNoSuppressedExceptions();
      assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 0, 0));
      engine.register(List.of(good));
      assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 1, 0x1000));
    }
  }
}
