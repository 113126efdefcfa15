package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.addr;
import static dev.mooncake4j.bootstrap.ServerFixture.sideChannel;
import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.InstanceOfAssertFactories.type;
import static org.junit.jupiter.api.Assumptions.abort;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class BootstrapServerTest {

  @Test
  void answersAsSoonAsItIsStarted() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      assertThat(fixture.port()).isPositive();
      assertThat(RawHttp.get(fixture.port(), "/health").body()).isEqualTo("{\"status\":\"ok\"}");
      assertThat(RawHttp.get(fixture.port(), "/query").body()).isEqualTo("{}");
    }
  }

  @Test
  void aBusyPortIsAnErrorThatNamesItAndLeavesNothingBehind() throws IOException {
    try (ServerSocket busy = sideChannel()) {
      BootstrapServerConfig config =
          BootstrapServerConfig.onPort(busy.getLocalPort()).withHost("127.0.0.1");
      assertThatThrownBy(() -> BootstrapServer.start(config))
          .isInstanceOf(BootstrapException.class)
          .hasMessageContaining("address=127.0.0.1:" + busy.getLocalPort())
          .hasMessageContaining("in use")
          .hasMessageContaining("VLLM_MOONCAKE_BOOTSTRAP_PORT")
          .asInstanceOf(type(BootstrapException.class))
          .extracting(BootstrapException::reason)
          .isEqualTo(Reason.BIND);
    }
  }

  @Test
  void anAddressOfAnotherHostIsAnErrorThatNamesIt() {
    for (String host : new String[] {"192.0.2.1", "no-such-host.invalid"}) {
      BootstrapServerConfig config = BootstrapServerConfig.onPort(0).withHost(host);
      assertThatThrownBy(() -> BootstrapServer.start(config))
          .isInstanceOf(BootstrapException.class)
          .hasMessageContaining(host);
    }
  }

  @Test
  void listensOnIpv6AsWell() throws Exception {
    try (BootstrapClient client =
        new BootstrapClient(BootstrapClientConfig.withTimeout(Duration.ofSeconds(20)))) {
      for (String host : new String[] {"::1", "[::1]"}) {
        BootstrapServer server;
        try {
          server = BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost(host));
        } catch (BootstrapException e) {
          assertThat(e).hasMessageContaining("address=[::1]:0");
          abort("this host has no IPv6: " + e.getMessage());
          return;
        }
        try (server) {
          client.register(BootstrapAddress.of(host, server.port()), worker("e", 0, "tcp://h:1"));
          URI bare = BootstrapAddress.parse("http://::1:" + server.port());
          assertThat(client.query(bare).toCompletableFuture().get(20, TimeUnit.SECONDS).engine("e"))
              .isNotNull();
        }
      }
    }
  }

  @Test
  void closesTwiceAndItsPortCanBeBoundAgainAtOnceWithConnectionsOpen() throws IOException {
    BootstrapServer first =
        BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"));
    try (RawHttp connection = new RawHttp(first.port())) {
      connection.send("GET /query HTTP/1.1\r\nHost: a\r\n\r\n");
      assertThat(connection.response().status()).isEqualTo(200);
      first.close();
      first.close();
      assertThat(connection.isClosedByServer()).isTrue();
      try (BootstrapServer second =
          BootstrapServer.start(BootstrapServerConfig.onPort(first.port()).withHost("127.0.0.1"))) {
        assertThat(second.port()).isEqualTo(first.port());
        assertThat(RawHttp.get(second.port(), "/query").status()).isEqualTo(200);
      }
    }
  }

  @Test
  void aClosedServerTakesNoWorkers() {
    BootstrapServer server = BootstrapServer.start(BootstrapServerConfig.onPort(0));
    server.close();
    assertThatThrownBy(() -> server.register(worker("e", 0, "tcp://a:1")))
        .asInstanceOf(type(BootstrapException.class))
        .extracting(BootstrapException::reason)
        .isEqualTo(Reason.CLOSED);
  }

  @Test
  void workersRegisteredInProcessAndOverHttpAreTheSame() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        ServerSocket alive = sideChannel()) {
      RegisterRequest first = worker("e", 0, addr(alive));
      fixture.server.register(first);
      fixture.server.register(first);
      assertThat(fixture.register(first).status()).isEqualTo(200);
      assertThat(fixture.register(worker("e", 1, "tcp://h:2")).status()).isEqualTo(200);
      assertThat(fixture.engine().workers())
          .isEqualTo(Map.of(0, Map.of(0, addr(alive)), 1, Map.of(0, "tcp://h:2")));
      RawHttp.Response refused = fixture.register(worker("other", 0, "tcp://h:3"));
      assertThat(refused.status()).isEqualTo(400);
      assertThatThrownBy(() -> fixture.server.register(worker("other", 0, "tcp://h:3")))
          .hasMessageContaining(refused.json().get("detail").stringValue())
          .asInstanceOf(type(BootstrapException.class))
          .satisfies(
              e -> {
                assertThat(e.reason()).isEqualTo(Reason.REJECTED);
                assertThat(e.status()).isEqualTo(400);
              });
    }
  }

  @Test
  void registeringTheSameWorkerAgainChangesNothing() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      for (int i = 0; i < 3; i++) {
        RawHttp.Response taken = fixture.register(worker("e", 0, "tcp://127.0.0.1:1"));
        assertThat(taken.status()).isEqualTo(200);
      }
      assertThat(fixture.engine().workers()).isEqualTo(Map.of(0, Map.of(0, "tcp://127.0.0.1:1")));
    }
  }

  @Test
  void anotherAddressForALiveWorkerIsRefusedWithBothAddresses() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        ServerSocket alive = sideChannel()) {
      fixture.server.register(worker("e", 0, addr(alive)));
      RawHttp.Response refused = fixture.register(worker("e", 0, "tcp://127.0.0.1:1"));
      assertThat(refused.status()).isEqualTo(400);
      assertThat(refused.body()).contains(addr(alive), "tcp://127.0.0.1:1");
      assertThat(fixture.engine().addr(0, 0)).isEqualTo(addr(alive));
    }
  }

  @Test
  void aRestartedEngineTakesItsPlaceOnceAllFormerWorkersAreGone() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      ServerSocket first = sideChannel();
      ServerSocket second = sideChannel();
      fixture.server.register(worker("old", 0, addr(first)));
      fixture.server.register(worker("old", 1, addr(second)));
      first.close();
      RawHttp.Response refused = fixture.register(worker("new", 0, "tcp://127.0.0.1:7"));
      assertThat(refused.status()).as("one of two is alive").isEqualTo(400);
      assertThat(refused.json().get("detail").stringValue())
          .isEqualTo("Engine ID mismatch for dp_rank=0: expected old, got new");
      second.close();
      assertThat(fixture.register(worker("new", 0, "tcp://127.0.0.1:7")).status()).isEqualTo(200);
      assertThat(RawHttp.get(fixture.port(), "/query").body())
          .isEqualTo(
              "{\"0\":{\"engine_id\":\"new\",\"worker_addr\":{\"0\":{\"0\":\"tcp://127.0.0.1:7\"}}}}");
    }
  }

  @Test
  void aRestartedWorkerOfTheSameEngineTakesItsPlaceAndLeavesTheOthers() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      ServerSocket first = sideChannel();
      fixture.server.register(worker("e", 0, addr(first)));
      fixture.server.register(worker("e", 1, "tcp://127.0.0.1:9"));
      first.close();
      assertThat(fixture.register(worker("e", 0, "tcp://127.0.0.1:7")).status()).isEqualTo(200);
      assertThat(fixture.engine().workers())
          .isEqualTo(Map.of(0, Map.of(0, "tcp://127.0.0.1:7"), 1, Map.of(0, "tcp://127.0.0.1:9")));
    }
  }

  @Test
  void whatCannotBeProbedIsNotKnownToBeGone() throws IOException {
    for (String addr :
        new String[] {
          "ipc:///tmp/x",
          "tcp://127.0.0.1",
          "tcp://no-such-host.invalid:5",
          "tcp://127.0.0.1:0",
          "x"
        }) {
      try (ServerFixture fixture = new ServerFixture()) {
        fixture.server.register(worker("old", 0, addr));
        assertThat(fixture.register(worker("new", 0, "tcp://h:1")).status())
            .as(addr)
            .isEqualTo(400);
      }
    }
  }

  @Test
  void aHostThatSaysNothingIsNotKnownToBeGone() throws IOException {
    try (ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        // Its queue holds these two, and the kernel drops what comes after them.
        RawHttp first = new RawHttp(full.getLocalPort());
        RawHttp second = new RawHttp(full.getLocalPort());
        ServerFixture fixture =
            new ServerFixture(config -> config.withProbeTimeout(Duration.ofMillis(50)))) {
      assertThat(List.of(first, second)).isNotEmpty();
      fixture.server.register(worker("old", 0, addr(full)));
      assertThat(fixture.register(worker("new", 0, "tcp://h:1")).status()).isEqualTo(400);
    }
  }

  @Test
  void manyRanksOfARestartedEngineRegisterAtOnce() throws Exception {
    try (ServerFixture fixture = new ServerFixture();
        ExecutorService ranks = Executors.newFixedThreadPool(16)) {
      ServerSocket gone = sideChannel();
      String dead = addr(gone);
      gone.close();
      for (int tp = 0; tp < 16; tp++) {
        fixture.server.register(worker("old", tp, dead));
      }
      Future<?>[] all = new Future<?>[16];
      for (int tp = 0; tp < 16; tp++) {
        RegisterRequest request = worker("new", tp, "tcp://h:" + (100 + tp));
        all[tp] = ranks.submit(() -> assertThat(fixture.register(request).status()).isEqualTo(200));
      }
      for (Future<?> one : all) {
        one.get(30, TimeUnit.SECONDS);
      }
      assertThat(fixture.engine().engineId()).isEqualTo("new");
      assertThat(fixture.engine().workers()).hasSize(16);
    }
  }

  @Test
  void afterAnOrderlyFarewellAnotherEngineComesAtOnce() throws IOException {
    try (ServerFixture fixture = new ServerFixture();
        ServerSocket alive = sideChannel()) {
      RegisterRequest old = worker("old", 0, addr(alive));
      fixture.server.register(old);
      String farewell = "{\"engine_id\":\"old\",\"dp_rank\":0,\"tp_rank\":\"0\",\"pp_rank\":0}";
      for (int i = 0; i < 2; i++) {
        RawHttp.Response response = RawHttp.postJson(fixture.port(), "/deregister", farewell);
        assertThat(response.status()).isEqualTo(200);
        assertThat(response.body()).isEqualTo("{\"status\":\"ok\"}");
        assertThat(RawHttp.get(fixture.port(), "/query").body()).isEqualTo("{}");
      }
      fixture.server.register(worker("new", 0, "tcp://h:1"));
      assertThat(fixture.server.deregister(old)).as("the former engine").isFalse();
      RawHttp.postJson(fixture.port(), "/deregister", farewell);
      assertThat(fixture.server.query().engine("new")).isNotNull();
    }
  }

  @Test
  void aLateFarewellOfAFormerProcessLeavesTheNewOne() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      RegisterRequest present = worker("e", 0, "tcp://h:2");
      fixture.server.register(present);
      assertThat(fixture.server.deregister(worker("e", 0, "tcp://h:1"))).isFalse();
      RawHttp.postJson(
          fixture.port(), "/deregister", ServerFixture.json(worker("e", 0, "tcp://h:1")));
      assertThat(fixture.server.query().engines()).hasSize(1);
      assertThat(fixture.server.deregister(present)).isTrue();
      assertThat(fixture.server.query().engines()).isEmpty();
    }
  }

  @Test
  void aFarewellThatNamesNoWorkerIsToldSo() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      RawHttp.Response response =
          RawHttp.postJson(fixture.port(), "/deregister", "{\"engine_id\":\"e\",\"dp_rank\":0}");
      assertThat(response.status()).isEqualTo(422);
      assertThat(response.json().get("detail")).hasSize(2);
    }
  }

  @Test
  void ranksAndTextsHaveLimits() throws IOException {
    try (ServerFixture fixture = new ServerFixture()) {
      String body =
          "{\"engine_id\":\"%s\",\"dp_rank\":%s,\"tp_rank\":0,\"pp_rank\":0,\"addr\":\"%s\"}";
      for (String[] fault :
          new String[][] {
            {body.formatted("e", "-1", "a"), "greater_than_equal"},
            {body.formatted("e", "1000001", "a"), "less_than_equal"},
            {body.formatted("e", "9".repeat(90), "a"), "less_than_equal"},
            {body.formatted("e", "\"" + "9".repeat(90) + "\"", "a"), "less_than_equal"},
            {body.formatted("e", "1e999", "a"), "int_from_float"},
            {body.formatted("", "0", "a"), "string_too_short"},
            {body.formatted("e", "0", ""), "string_too_short"},
            {body.formatted("e".repeat(513), "0", "a"), "string_too_long"},
            {body.formatted("\\ud800", "0", "a"), "string_unicode"},
            {body.formatted("e", "9".repeat(101), "a"), "json_invalid"},
            {"[".repeat(1000) + "]".repeat(1000), "json_invalid"},
          }) {
        RawHttp.Response response = RawHttp.postJson(fixture.port(), "/register", fault[0]);
        assertThat(response.status()).as(fault[0]).isEqualTo(422);
        assertThat(response.json().get("detail").get(0).get("type").stringValue())
            .as(fault[0])
            .isEqualTo(fault[1]);
      }
      assertThat(fixture.server.query().engines()).isEmpty();
    }
  }

  @Test
  void theRegistryHasALimitAndAnswersAtIt() throws IOException {
    WorkerRegistry registry = new WorkerRegistry();
    String addr = "tcp://" + "h".repeat(500);
    int taken = 0;
    WorkerRegistry.Outcome last = registry.register(worker("e", 0, addr), Set.of());
    while (last instanceof WorkerRegistry.Registered && taken < 10_000) {
      taken++;
      last = registry.register(new RegisterRequest("e", taken, 0, 0, addr), Set.of());
    }
    assertThat(last).isInstanceOf(WorkerRegistry.Refused.class);
    assertThat(taken).isBetween(1000, 3000);
    assertThat(registry.snapshot().answer().engines()).hasSize(taken);
    assertThat(registry.snapshot().json().length).isLessThanOrEqualTo(Json.MAX_ANSWER_BYTES);
  }

  @Test
  void aRankIsKeptForTheEngineThatStartsTheServer() throws IOException {
    try (BootstrapServer server =
            BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"), 0, "new");
        ServerSocket alive = sideChannel()) {
      RawHttp.Response refusal =
          RawHttp.postJson(
              server.port(), "/register", ServerFixture.json(worker("old", 1, addr(alive))));
      assertThat(refusal.status()).isEqualTo(400);
      assertThat(refusal.json().get("detail").stringValue())
          .isEqualTo("Engine ID mismatch for dp_rank=0: expected new, got old");
      server.register(new RegisterRequest("old", 1, 0, 0, addr(alive)));
      server.register(worker("new", 0, addr(alive)));
      assertThat(server.query().engines()).hasSize(2);

      assertThat(server.deregister(worker("new", 0, addr(alive)))).isTrue();
      server.register(worker("old", 1, addr(alive)));
      assertThat(server.query().engine("old")).as("kept until the first registration").isNotNull();
    }
  }

  @Test
  void configurationTellsAllItsProblems() {
    assertThatIllegalArgumentException()
        .isThrownBy(
            () ->
                new BootstrapServerConfig(
                    " ", 65536, Duration.ZERO, Duration.ofDays(2), 0, Duration.ofSeconds(-1), null))
        .withMessageContainingAll(
            "host", "port=65536", "request_timeout", "idle_timeout", "max_connections=0", "probe");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new RegisterRequest("e", -1, 0, 0, "a"))
        .withMessageContaining("dp_rank=-1");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new RegisterRequest("", 0, 0, 0, "a"))
        .withMessageContaining("engine_id");
  }
}
