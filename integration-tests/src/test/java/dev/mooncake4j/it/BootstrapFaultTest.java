package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.bootstrap.BootstrapAddress;
import dev.mooncake4j.bootstrap.BootstrapClient;
import dev.mooncake4j.bootstrap.BootstrapClientConfig;
import dev.mooncake4j.bootstrap.BootstrapServer;
import dev.mooncake4j.bootstrap.BootstrapServerConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** The bootstrap server is away, comes late, or is somebody else's. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class BootstrapFaultTest {
  private static final Object[] SHAPE = {"--layers", 2, "--num-blocks", 64, "--block-len", 4096};

  private static int closedPort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  @Test
  void aPrefillerRegistersWithAServerThatAnswersAtTheThirdAttempt() {
    try (BootstrapServer server =
            BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"));
        FlakyProxy proxy = FlakyProxy.start(server.port(), 2);
        PeerProcess prefiller =
            PeerProcess.prefiller("prefiller")
                .options(SHAPE)
                .option("--bootstrap-server-address", "127.0.0.1:" + proxy.port())
                .startReady();
        PeerProcess decoder = PeerProcess.decoder("decoder").options(SHAPE).startReady()) {
      assertThat(proxy.connections()).isGreaterThanOrEqualTo(3);
      assertThat(prefiller.bootstrap()).isEqualTo("http://127.0.0.1:" + proxy.port());
      String id = PeerPair.fresh("external");
      prefiller.send("req_id", "p", "transfer_id", id, "block_ids", new int[] {1, 2});
      decoder.send(
          PeerPair.pullCommand(
              prefiller.engineId(), "http://127.0.0.1:" + server.port(), id, 3, 4));
      JsonNode event = decoder.await("finished_recving", "req_id", "d-" + id);
      assertThat(event.path("load_error").asBoolean()).isFalse();
    }
  }

  @Test
  void aPrefillerWhoseServerNeverAnswersDoesNotStart() throws IOException {
    int port = closedPort();
    try (PeerProcess prefiller =
        PeerProcess.prefiller("prefiller")
            .options(SHAPE)
            .option("--bootstrap-server-address", "127.0.0.1:" + port)
            .start()) {
      JsonNode failed = prefiller.await(PeerProcess.START, "start_failed");
      assertThat(failed.path("error").asString()).isEqualTo("BootstrapUnavailableException");
      assertThat(failed.path("message").asString()).contains("127.0.0.1:" + port).contains("3");
      assertThat(prefiller.awaitExit()).isEqualTo(1);
    }
  }

  @Test
  void aPortInUseIsNamed() throws IOException {
    try (ServerSocket taken = new ServerSocket(0);
        PeerProcess prefiller =
            PeerProcess.prefiller("prefiller")
                .options(SHAPE)
                .option("--bootstrap-port", taken.getLocalPort())
                .start()) {
      JsonNode failed = prefiller.await(PeerProcess.START, "start_failed");
      assertThat(failed.path("message").asString()).contains(String.valueOf(taken.getLocalPort()));
      assertThat(prefiller.awaitExit()).isEqualTo(1);
    }
  }

  @Test
  void aDecoderAsksAgainAndGivesUpInTime() throws IOException {
    try (PeerPair pair = PeerPair.start(SHAPE);
        FlakyProxy proxy = FlakyProxy.start(pair.prefiller.bootstrapPort(), 2)) {
      String dead = PeerPair.fresh("dead");
      String nowhere = "http://127.0.0.1:" + closedPort();
      pair.decoder.send(PeerPair.pullCommand(pair.prefiller.engineId(), nowhere, dead, 1));
      JsonNode failed = pair.awaitFailed(dead);
      assertThat(failed.path("stage").asString()).isEqualTo("BOOTSTRAP");
      assertThat(failed.path("reason").asString()).contains(nowhere);

      String id = PeerPair.fresh("flaky");
      pair.prefill(id, 1, 2);
      pair.decoder.send(
          PeerPair.pullCommand(
              pair.prefiller.engineId(), "http://127.0.0.1:" + proxy.port(), id, 3, 4));
      pair.awaitReceived(id);
      assertThat(proxy.connections()).isGreaterThanOrEqualTo(3);
      pair.awaitSent(id);
      pair.verify(new int[] {1, 2}, new int[] {3, 4});

      String noScheme = PeerPair.fresh("noscheme");
      pair.decoder.send(PeerPair.pullCommand("other", "127.0.0.1:1", noScheme, 1));
      assertThat(pair.awaitFailed(noScheme).path("reason").asString()).contains("127.0.0.1:1");
      pair.verifyIdle();
    }
  }

  @Test
  void aSecondPrefillerOnALiveOnesPlaceIsRefused() {
    try (PeerProcess first = PeerProcess.prefiller("first").options(SHAPE).startReady();
        PeerProcess second =
            PeerProcess.prefiller("second")
                .options(SHAPE)
                .option("--bootstrap-server-address", "127.0.0.1:" + first.bootstrapPort())
                .start()) {
      JsonNode failed = second.await(PeerProcess.START, "start_failed");
      assertThat(failed.path("error").asString()).isEqualTo("BootstrapUnavailableException");
      assertThat(failed.path("message").asString()).contains(first.engineId());
      assertThat(second.awaitExit()).isEqualTo(1);
    }
  }

  /**
   * The server's process is killed and comes back with another engine id; a rank in another process
   * lives on.
   */
  @Test
  void aRankIsFoundAgainAfterItsBootstrapServerWasRestarted() throws IOException {
    int port = closedPort();
    try (PeerProcess host =
            PeerProcess.prefiller("host")
                .options(SHAPE)
                .option("--bootstrap-port", port)
                .startReady();
        PeerProcess rank =
            PeerProcess.prefiller("rank")
                .options(SHAPE)
                .options("--dp-rank", 1, "--bootstrap-server-address", "127.0.0.1:" + port)
                .startReady();
        PeerProcess known = PeerProcess.decoder("known").options(SHAPE).startReady()) {
      fetch(rank, known, "before");
      host.kill();
      fetch(rank, known, "between");
      try (PeerProcess successor =
              PeerProcess.prefiller("successor")
                  .options(SHAPE)
                  .option("--bootstrap-port", port)
                  .startReady();
          PeerProcess fresh = PeerProcess.decoder("fresh").options(SHAPE).startReady();
          BootstrapClient client =
              new BootstrapClient(BootstrapClientConfig.withTimeout(Duration.ofSeconds(20)))) {
        Awaitility.await()
            .atMost(PeerProcess.START)
            .until(
                () ->
                    client
                            .query(BootstrapAddress.of("127.0.0.1", port))
                            .toCompletableFuture()
                            .get(60, TimeUnit.SECONDS)
                            .engine(rank.engineId())
                        != null);
        fetch(rank, fresh, "after");
        fetch(rank, known, "known");
        fetch(successor, known, "successor");
        PeerPair.verifyIdle(rank);
      }
    }
  }

  private static void fetch(PeerProcess prefiller, PeerProcess decoder, String name) {
    String id = PeerPair.fresh(name);
    prefiller.send("req_id", "p-" + id, "transfer_id", id, "block_ids", new int[] {1, 2});
    decoder.send(PeerPair.pullCommand(prefiller.engineId(), prefiller.bootstrap(), id, 3, 4));
    JsonNode event = decoder.await("finished_recving", "req_id", "d-" + id);
    assertThat(event.path("load_error").asBoolean()).as(name).isFalse();
    prefiller.await("finished_sending", "req_id", "p-" + id);
  }
}
