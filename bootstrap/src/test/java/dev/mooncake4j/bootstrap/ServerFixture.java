package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Objects;
import java.util.function.UnaryOperator;

/** A server on a free port of this host; when closed, it must have given back its buffers. */
final class ServerFixture implements AutoCloseable {
  final BootstrapServer server;

  ServerFixture() {
    this(config -> config);
  }

  ServerFixture(UnaryOperator<BootstrapServerConfig> change) {
    server =
        BootstrapServer.start(change.apply(BootstrapServerConfig.onPort(0).withHost("127.0.0.1")));
  }

  static BootstrapServerConfig impatient(BootstrapServerConfig config) {
    return config.withRequestTimeout(Duration.ofMillis(300));
  }

  int port() {
    return server.port();
  }

  /** The engine at data-parallel rank 0. */
  QueryAnswer.EngineEntry engine() {
    return Objects.requireNonNull(server.query().engines().get(0), "no engine at rank 0");
  }

  static RegisterRequest worker(String engineId, int tpRank, String addr) {
    return new RegisterRequest(engineId, 0, tpRank, 0, addr);
  }

  static String json(RegisterRequest worker) {
    return "{\"engine_id\":\"%s\",\"dp_rank\":%d,\"tp_rank\":%d,\"pp_rank\":%d,\"addr\":\"%s\"}"
        .formatted(
            worker.engineId(), worker.dpRank(), worker.tpRank(), worker.ppRank(), worker.addr());
  }

  RawHttp.Response register(RegisterRequest worker) throws IOException {
    return RawHttp.postJson(port(), "/register", json(worker));
  }

  /** A worker's side channel: accepts connections until it is closed. */
  static ServerSocket sideChannel() throws IOException {
    return new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  }

  static String addr(ServerSocket socket) {
    return "tcp://127.0.0.1:" + socket.getLocalPort();
  }

  @Override
  public void close() {
    server.close();
    assertThat(server.unexpectedErrors()).as("unexpected errors, see the log").isZero();
    assertThat(server.bufferBytesInUse()).as("bytes of buffers in use").isZero();
  }
}
