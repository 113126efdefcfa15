package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.engine.load.EngineLibrary;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Which transport is used, and what a completed write means on it. */
class TransportsTest {
  private static final List<String> OPTIONS = List.of("--enable-native-access=ALL-UNNAMED");

  @BeforeAll
  static void engineIsThere() {
    Engines.require();
  }

  @Test
  void tcpIsTcpAndProvesArrival() {
    try (TransferEngine engine = Engines.open()) {
      assertThat(engine.transport()).isEqualTo("tcp");
      assertThat(engine.completionProvesArrival()).isTrue();
    }
  }

  @Test
  void rdmaWithoutADeviceIsTcpWithOneWarning() throws Exception {
    assumeTrue(!Files.exists(Path.of("/sys/class/infiniband")), "this host has RDMA devices");
    String output = ChildJvm.run(Map.of(), OPTIONS, EngineProbe.class, "127.0.0.1", "rdma");
    assertThat(output)
        .contains("transport=tcp proves=true status=COMPLETED arrived=true")
        .contains("WARN")
        .contains("no RDMA device");
    // Two engines, one warning each.
    assertThat(output.lines().filter(line -> line.contains("WARN "))).hasSize(2);
  }

  @Test
  void aTransportThatTheWheelLacksIsRefused() {
    assertThatThrownBy(
            () -> new NativeTransferEngineProvider().open(Engines.config("carrier_pigeon")))
        .isInstanceOf(TransferEngineException.class)
        .hasMessageContaining("protocol=carrier_pigeon");
  }

  @Test
  void theOldProtocolProvesNothingAndThatIsTold() throws Exception {
    String output =
        ChildJvm.run(Map.of("MC_TCP_PROTO", "1"), OPTIONS, EngineProbe.class, "127.0.0.1", "tcp");
    assertThat(output).contains("proves=false status=COMPLETED").contains("MC_TCP_PROTO=1");
  }

  @Test
  void aLibraryCanBeNamed() throws Exception {
    String file = EngineLibrary.open(null, false).file().toString();
    assertThat(ChildJvm.run(Map.of(), OPTIONS, EngineProbe.class, "127.0.0.1", "tcp", file))
        .contains("status=COMPLETED arrived=true");
  }

  @Test
  void anIpv6AddressWorks() throws Exception {
    assumeTrue(hasIpv6(), "this host has no IPv6");
    assertThat(ChildJvm.run(Map.of(), OPTIONS, EngineProbe.class, "::1", "tcp"))
        .contains("status=COMPLETED arrived=true");
  }

  private static boolean hasIpv6() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.ofLiteral("::1"))) {
      return socket.getLocalPort() > 0;
    } catch (IOException e) {
      return false;
    }
  }
}
