package dev.mooncake4j.examples.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.bootstrap.BootstrapServer;
import dev.mooncake4j.bootstrap.BootstrapServerConfig;
import dev.mooncake4j.bootstrap.RegisterRequest;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each of the doctor's looks, at things that are well and things that are not. */
class DoctorTest {
  private static final SharedSecret SECRET = SharedSecret.of("a-secret-of-the-cluster");

  private final StringWriter text = new StringWriter();
  private final Report report = new Report(new PrintWriter(text));

  private NetworkChecks network(@Nullable SharedSecret secret) {
    return new NetworkChecks(report, secret, NetworkChecks.PATIENCE);
  }

  /** What was told, and that it is a fault with something to do next, or none. */
  private String told(int problems) {
    String told = text.toString();
    assertThat(report.problems()).as(told).isEqualTo(problems);
    assertThat(told.lines().filter(line -> line.startsWith("  PROBLEM  "))).hasSize(problems);
    assertThat(told.lines().filter(line -> line.startsWith("           next: "))).hasSize(problems);
    return told;
  }

  // ---- the machine

  private static void write(Path root, String file, String content) throws IOException {
    Path path = root.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, content);
  }

  private static void rdma(Path root, String state) throws IOException {
    String port = "sys/class/infiniband/mlx5_0/ports/1/";
    write(root, port + "state", state + "\n");
    write(root, port + "link_layer", "InfiniBand\n");
    write(root, port + "rate", "400 Gb/sec (4X NDR)\n");
  }

  @Test
  void aMachineWithoutDevicesIsWell(@TempDir Path root) {
    assertThat(new MachineChecks(report, root).devices(Map.of())).isFalse();
    assertThat(told(0)).contains("no rdma device").contains("no nvidia gpu");
  }

  @Test
  void anActivePortAndLoadedPeermemAreWell(@TempDir Path root) throws IOException {
    rdma(root, "4: ACTIVE");
    write(root, "proc/self/limits", "Max locked memory  unlimited  unlimited  bytes\n");
    write(root, "proc/driver/nvidia/gpus/0000:17:00.0/information", "");
    write(root, "sys/module/nvidia_peermem/refcnt", "0");
    assertThat(new MachineChecks(report, root).devices(Map.of())).isTrue();
    assertThat(told(0))
        .contains("rdma_device=mlx5_0 port=1 link_layer=InfiniBand")
        .contains("state=4: ACTIVE")
        .contains("gpus=1 nvidia_peermem=loaded");
  }

  @Test
  void aPortThatIsDownIsAFault(@TempDir Path root) throws IOException {
    rdma(root, "1: DOWN");
    assertThat(new MachineChecks(report, root).devices(Map.of())).isFalse();
    assertThat(told(1)).contains("no port of rdma_devices=1 is active").contains("ibstat");
  }

  @Test
  void limitedLockedMemoryIsAFaultWhereThereIsRdma(@TempDir Path root) throws IOException {
    rdma(root, "4: ACTIVE");
    write(
        root,
        "proc/self/limits",
        "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  8388608  bytes\n");
    write(root, "proc/driver/nvidia/gpus/0000:17:00.0/information", "");
    assertThat(new MachineChecks(report, root).devices(Map.of())).isTrue();
    assertThat(told(1))
        .contains("locked memory is limited, bytes=8388608")
        .contains("ulimit -l")
        .contains("nvidia_peermem=not loaded: for GPUDirect set WITH_NVIDIA_PEERMEM=0");
  }

  @Test
  void noSecretIsShown() {
    assertThat(
            MachineChecks.hidden(
                List.of("-Xmx2g", "-Dmy.secret=abc", "-Djavax.net.ssl.keyStorePassword=abc=d")))
        .containsExactly(
            "-Xmx2g", "-Dmy.secret=(hidden)", "-Djavax.net.ssl.keyStorePassword=(hidden)");
    new MachineChecks(report, Path.of("/"))
        .environment(
            Map.of(
                "MOONCAKE4J_SHARED_SECRET",
                "abc",
                "MOONCAKE4J_SHARED_SECRET_FILE",
                "/etc/s",
                "MC_LOG_LEVEL",
                "INFO",
                "OPENAI_API_KEY",
                "sk-1"));
    assertThat(told(0))
        .contains(
            "  ok       MC_LOG_LEVEL=INFO MOONCAKE4J_SHARED_SECRET=(hidden)"
                + " MOONCAKE4J_SHARED_SECRET_FILE=/etc/s")
        .doesNotContain("abc")
        .doesNotContain("sk-1");
  }

  @Test
  void aJvmWithoutNativeAccessIsAFault() {
    new MachineChecks(report, Path.of("/")).nativeAccess(false);
    assertThat(told(1)).contains("--enable-native-access=ALL-UNNAMED");
  }

  // ---- the network

  @Test
  void anAddressIsThisHostsOrAFault() {
    network(null).host("127.0.0.1");
    assertThat(told(0)).contains("note     advertised=127.0.0.1");
    // Of a network that is reserved for examples.
    network(null).host("198.51.100.7");
    assertThat(told(1))
        .contains("198.51.100.7 is no address of this host")
        .contains("VLLM_HOST_IP");
  }

  @Test
  void aPortIsFreeOrABootstrapServersOrAFault() throws Exception {
    int free;
    Thread closing;
    try (ServerSocket other = new ServerSocket(0)) {
      free = other.getLocalPort();
      // Whoever accepts no more than a connection answers nothing; it is closed to fail at once.
      closing = closeEach(other);
      assertThat(network(null).bootstrapPort(free)).isFalse();
      assertThat(told(1))
          .contains("bootstrap_port=" + free + " is taken\n")
          .contains("VLLM_MOONCAKE_BOOTSTRAP_PORT or its --bootstrap-port");
    }
    closing.join();
    assertThat(network(null).bootstrapPort(free)).isFalse();
    assertThat(network(null).bootstrapPort(0)).isFalse();
    assertThat(told(1)).contains("bootstrap_port=" + free + " is free");
    for (SharedSecret secret : new @Nullable SharedSecret[] {null, SECRET}) {
      try (BootstrapServer server =
          BootstrapServer.start(BootstrapServerConfig.onPort(0).withSecret(secret))) {
        assertThat(network(null).bootstrapPort(server.port())).isTrue();
      }
    }
    assertThat(told(1)).contains("is a bootstrap server's that runs");
  }

  private static Thread closeEach(ServerSocket server) {
    return Thread.ofVirtual()
        .start(
            () -> {
              while (!server.isClosed()) {
                try (Socket _ = server.accept()) {
                  // Nothing is said.
                } catch (IOException e) {
                  return;
                }
              }
            });
  }

  /** Greets each who connects, as a side channel does. */
  private static ServerSocket greeter(String mechanism) throws IOException {
    ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    byte[] greeting = new byte[64];
    greeting[0] = (byte) 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    System.arraycopy(
        mechanism.getBytes(StandardCharsets.US_ASCII), 0, greeting, 12, mechanism.length());
    Thread.ofVirtual()
        .start(
            () -> {
              while (!server.isClosed()) {
                try (Socket socket = server.accept()) {
                  socket.getOutputStream().write(greeting);
                  byte[] theirs = socket.getInputStream().readNBytes(64);
                  assertThat(theirs).startsWith(0xff);
                } catch (IOException e) {
                  // Closed.
                }
              }
            });
    return server;
  }

  private static String address(ServerSocket server) {
    return "tcp://127.0.0.1:" + server.getLocalPort();
  }

  @Test
  void theEnginesOfABootstrapServerAndTheirSideChannelsAreLookedAt() throws IOException {
    String dead;
    try (ServerSocket gone = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      dead = address(gone);
    }
    try (ServerSocket side = greeter("NULL");
        BootstrapServer server = BootstrapServer.start(BootstrapServerConfig.onPort(0))) {
      server.register(new RegisterRequest("prefiller-1", 0, 0, 0, address(side)));
      server.register(new RegisterRequest("prefiller-1", 0, 1, 0, dead));
      network(null).bootstrap("http://127.0.0.1:" + server.port());
      assertThat(told(1))
          .contains("ok       engine_id=prefiller-1 dp_rank=0")
          .contains("ok       tp_rank=0 pp_rank=0 side_channel=" + address(side))
          .contains("PROBLEM  tp_rank=1 pp_rank=0 side_channel=" + dead + " is not reached");
    }
  }

  @Test
  void aBootstrapServerThatIsNotThereOrHasNobodyOrAsksForASecretIsAFault() {
    int gone;
    try (BootstrapServer server =
        BootstrapServer.start(BootstrapServerConfig.onPort(0).withSecret(SECRET))) {
      gone = server.port();
      network(SECRET).bootstrap("http://127.0.0.1:" + gone);
      assertThat(told(1)).contains("no engine has registered");
      network(null).bootstrap("http://127.0.0.1:" + gone);
      assertThat(told(2)).contains("next: it asks for the shared secret");
    }
    network(null).bootstrap("http://127.0.0.1:" + gone);
    assertThat(told(3)).contains("GET /query failed").contains("firewalls");
    network(null).bootstrap("127.0.0.1:8998");
    network(null).bootstrap("htp:/x");
    network(null).bootstrap("http://127.0.0.1:8998/query");
    String told = told(6);
    assertThat(told.lines().filter(line -> line.contains("give --bootstrap http://HOST:PORT")))
        .hasSize(3);
    assertThat(told.lines().filter(line -> line.contains("GET /query failed"))).hasSize(2);
  }

  @Test
  void aSideChannelOfAnotherSecretOrOfSomethingElseIsAFault() throws IOException {
    try (ServerSocket plain = greeter("PLAIN");
        ServerSocket none = greeter("NULL")) {
      network(SECRET).sideChannel("tp_rank=0", address(plain));
      network(null).sideChannel("tp_rank=1", address(none));
      assertThat(told(0)).contains("mechanism=PLAIN").contains("mechanism=NULL");
      network(null).sideChannel("tp_rank=2", address(plain));
      network(SECRET).sideChannel("tp_rank=3", address(none));
      network(null).sideChannel("tp_rank=4", "ipc:///tmp/x");
      network(null).sideChannel("tp_rank=5", "tcp://nonsense");
      assertThat(told(4))
          .contains("--secret-file")
          .contains("a shared secret is set here and not there")
          .contains("is not tcp://host:port");
    }
  }

  @Test
  void aSideChannelThatSaysNothingOrSomethingElseIsAFault() throws IOException {
    NetworkChecks quick = new NetworkChecks(report, null, Duration.ofMillis(300));
    // Connections are taken by the system, and nobody says a word.
    try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      quick.sideChannel("tp_rank=0", address(silent));
      assertThat(told(1)).contains(address(silent) + " takes a connection and says nothing");
    }
    try (ServerSocket closes = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      Thread closing = closeEach(closes);
      network(null).sideChannel("tp_rank=1", address(closes));
      assertThat(told(2)).contains("tp_rank=1 side_channel=" + address(closes));
      assertThat(closing.isAlive()).isTrue();
    }
  }

  // ---- the engine

  @Test
  void theVersionIsThatOfTheWheelsFolder(@TempDir Path root) throws IOException {
    write(root, "site-packages/mooncake/engine.so", "");
    write(root, "site-packages/mooncake_transfer_engine_cuda13-0.3.13.dist-info/METADATA", "");
    assertThat(EngineChecks.version(root.resolve("site-packages/mooncake/engine.so")))
        .isEqualTo("mooncake_transfer_engine_cuda13-0.3.13");
    write(root, "mooncake-transfer-engine-non-cuda-0.3.13.post1/mooncake/engine.so", "");
    assertThat(
            EngineChecks.version(
                root.resolve("mooncake-transfer-engine-non-cuda-0.3.13.post1/mooncake/engine.so")))
        .isEqualTo("mooncake-transfer-engine-non-cuda-0.3.13.post1");
    assertThat(EngineChecks.version(root.resolve("lib/libtransfer_engine.so")))
        .isEqualTo("unknown");
  }

  @Test
  void anEngineThatDoesNotStartIsAFault() {
    ConnectorConfig config =
        ConnectorConfig.builder().role(KvRole.BOTH).environment(Map.of()).build();
    new EngineChecks(
            report,
            new TransferEngineProvider() {
              @Override
              public String name() {
                return "broken";
              }

              @Override
              public TransferEngine open(EngineConfig settings) {
                throw new TransferEngineException("start", 5, "no port is free", null);
              }
            },
            config)
        .loopback(false, 1);
    assertThat(told(1))
        .contains("the engine does not start: operation=start code=5: no port is free");
  }

  // ---- the whole

  @Test
  void aJsonThatIsWrongHidesNothingElse() {
    StringWriter out = new StringWriter();
    int code =
        Doctor.commandLine(Map.of("VLLM_HOST_IP", "127.0.0.1"))
            .setOut(new PrintWriter(out))
            .execute(
                "--loopback-mib=0",
                "--bootstrap-port=0",
                "--bootstrap=htp:/x",
                "--kv-transfer-config={\"kv_role\":\"kv_nobody\"}");
    assertThat(out.toString())
        .contains("kv_nobody")
        .contains("without the --kv-transfer-config")
        .contains("advertised=127.0.0.1")
        .contains("bootstrap_port=0")
        .contains("htp:/x");
    assertThat(code).isEqualTo(1);
  }

  @Test
  void aConfigurationThatIsWrongEndsItWithOneAndNoSecret() {
    StringWriter out = new StringWriter();
    int code =
        Doctor.commandLine(
                Map.of("MOONCAKE4J_SHARED_SECRET", "short", "VLLM_MOONCAKE_BOOTSTRAP_PORT", "many"))
            .setOut(new PrintWriter(out))
            .execute("--loopback-mib", "0");
    assertThat(out.toString())
        .contains("PROBLEM  ")
        .contains("VLLM_MOONCAKE_BOOTSTRAP_PORT=many is not a port")
        .contains("with the defaults")
        .contains("bootstrap_port=8998")
        .doesNotContain("short\n")
        .doesNotContain("=short");
    assertThat(out.toString().lines().toList().getLast()).startsWith("doctor: problems=");
    assertThat(code).isEqualTo(1);
  }
}
