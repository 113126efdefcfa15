package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.addr;
import static dev.mooncake4j.bootstrap.ServerFixture.json;
import static dev.mooncake4j.bootstrap.ServerFixture.sideChannel;
import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import dev.mooncake4j.bootstrap.WorkerRegistry.Refused;
import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A server that is about to close. */
class DrainTest {
  private static final RegisterRequest WORKER = worker("engine-P", 0, "tcp://127.0.0.1:37367");
  private static final RegisterRequest LATE = worker("engine-P", 1, "tcp://127.0.0.1:37368");

  @Test
  void takesNobodyNewAndAnswersOn() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      assertThat(fixture.register(WORKER).status()).isEqualTo(200);
      assertThat(fixture.server.isDraining()).isFalse();
      assertThat(RawHttp.get(fixture.port(), "/health").body()).isEqualTo("{\"status\":\"ok\"}");
      String before = RawHttp.get(fixture.port(), "/query").body();

      fixture.server.drain();
      fixture.server.drain();

      assertThat(fixture.server.isDraining()).isTrue();
      RawHttp.Response refusal = fixture.register(LATE);
      assertThat(refusal.status()).isEqualTo(503);
      assertThat(refusal.headers()).containsEntry("retry-after", "5");
      assertThat(refusal.json().get("detail").stringValue())
          .contains("closing", "register again when it has been started anew");
      assertThat(RawHttp.get(fixture.port(), "/query").body()).isEqualTo(before);
      assertThat(RawHttp.get(fixture.port(), "/health").body())
          .isEqualTo("{\"status\":\"draining\"}");
      assertThat(fixture.register(WORKER).status()).as("who is there already").isEqualTo(200);

      assertThat(RawHttp.postJson(fixture.port(), "/deregister", json(WORKER)).status())
          .isEqualTo(200);
      assertThat(fixture.server.query().engines()).isEmpty();
      assertThat(fixture.register(WORKER).status()).isEqualTo(503);
    }
  }

  @Test
  void theClientDoesNotAskAgain() {
    try (ServerFixture fixture = new ServerFixture();
        BootstrapClient client =
            new BootstrapClient(BootstrapClientConfig.withTimeout(Duration.ofSeconds(20)))) {
      fixture.server.drain();
      BootstrapException refusal =
          catchThrowableOfType(
              BootstrapException.class,
              () -> client.register(BootstrapAddress.of("127.0.0.1", fixture.port()), WORKER));
      assertThat(refusal.reason()).isEqualTo(Reason.REJECTED);
      assertThat(refusal.status()).isEqualTo(503);
      assertThat(refusal.attempts()).isEqualTo(1);
      assertThat(refusal).hasMessageContaining("takes no more workers");
      assertThat(
              catchThrowableOfType(BootstrapException.class, () -> fixture.server.register(WORKER))
                  .status())
          .isEqualTo(503);
    }
  }

  @Test
  void whoWaitsForAProbeIsNotTakenEither() throws Exception {
    WorkerRegistry registry = new WorkerRegistry();
    CompletableFuture<Boolean> gone = new CompletableFuture<>();
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    try (ServerSocket former = sideChannel()) {
      Registrar registrar = new Registrar(registry, addrs -> gone, timer, Duration.ofMinutes(1));
      registrar.register(worker("old", 0, addr(former))).get(20, TimeUnit.SECONDS);
      CompletableFuture<WorkerRegistry.Outcome> waiting = registrar.register(WORKER);
      assertThat(registry.drain()).isTrue();
      assertThat(registry.drain()).isFalse();
      gone.complete(true);
      assertThat(waiting.get(20, TimeUnit.SECONDS))
          .isInstanceOfSatisfying(Refused.class, r -> assertThat(r.status()).isEqualTo(503));
      assertThat(registry.snapshot().answer().engine("old")).isNotNull();
    } finally {
      timer.shutdownNow();
    }
  }
}
