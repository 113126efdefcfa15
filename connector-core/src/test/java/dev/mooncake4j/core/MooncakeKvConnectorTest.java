package dev.mooncake4j.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.bootstrap.BootstrapServer;
import dev.mooncake4j.bootstrap.BootstrapServerConfig;
import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.BootstrapUnavailableException;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.ConnectorHooks;
import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.config.CapturedLog;
import dev.mooncake4j.testkit.InMemoryNetwork;
import dev.mooncake4j.testkit.InMemoryTransferEngineProvider;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The connector as a whole: its workers, its bootstrap server, and what is left of them. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class MooncakeKvConnectorTest {
  private static final int BLOCK_BYTES = 64;
  private static final int BLOCKS = 8;

  private final InMemoryTransferEngineProvider engines =
      new InMemoryTransferEngineProvider(new InMemoryNetwork());
  private final ConnectorHooks hooks = ConnectorHooks.none().withEngineProvider(engines);
  private final Arena arena = Arena.ofShared();
  private final List<KvConnector> opened = new ArrayList<>();

  @AfterEach
  void close() {
    opened.forEach(KvConnector::close);
    assertThat(engines.opened()).allMatch(engine -> engine.isClosed());
    arena.close();
  }

  private static ConnectorConfig.Builder config(KvRole role) {
    return ConnectorConfig.builder()
        .role(role)
        .host("127.0.0.1")
        .cacheSpec(new KvCacheSpec(List.of(KvCacheGroup.fullAttention(16)), 1, false, 1))
        .environment(Map.of())
        .bootstrapPort(freePort());
  }

  private static int freePort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private KvConnector open(ConnectorConfig config) {
    KvConnector connector = new MooncakeConnectorProvider().open(config, hooks);
    opened.add(connector);
    return connector;
  }

  private MemorySegment register(KvWorker worker) {
    MemorySegment memory = arena.allocate((long) BLOCKS * BLOCK_BYTES, 64);
    worker.registerKvCaches(
        KvCacheLayout.layersInOne(
            KvMemory.host(memory), List.of("model.layers.0"), BLOCK_BYTES, BLOCKS));
    return memory;
  }

  @Test
  void aBlockCrossesBetweenTwoConnectors() throws Exception {
    KvConnector p = open(config(KvRole.PRODUCER).build());
    KvWorker prefiller = p.openWorker(RankLayout.single());
    MemorySegment source = register(prefiller);
    KvConnector d = open(config(KvRole.CONSUMER).build());
    KvWorker decoder = d.openWorker(RankLayout.single());
    MemorySegment target = register(decoder);
    source.asSlice(3L * BLOCK_BYTES, BLOCK_BYTES).fill((byte) 7);

    StepResult result = fetch(p, prefiller, d, decoder, "t", 3, 5);
    assertThat(result.received()).containsExactly("d-t");
    assertThat(target.get(ValueLayout.JAVA_BYTE, 5L * BLOCK_BYTES + 63)).isEqualTo((byte) 7);
    assertThat(target.get(ValueLayout.JAVA_BYTE, 4L * BLOCK_BYTES + 63)).isZero();
    assertThat(prefiller.await(Duration.ofSeconds(60)).sent()).hasSize(1);
    assertThat(decoder.transport()).isEqualTo(prefiller.transport());
  }

  /** Has a decoder fetch one block; returns what it reports. */
  private static StepResult fetch(
      KvConnector p,
      KvWorker prefiller,
      KvConnector d,
      KvWorker decoder,
      String id,
      int from,
      int to)
      throws InterruptedException {
    KvRequest sent = new KvRequest("p-" + id, 16, KvTransferParams.forPrefiller(id));
    p.scheduler().onRequestArrived(sent);
    p.scheduler().onBlocksAllocated(sent, BlockIds.none(), 0);
    prefiller.startStep(p.scheduler().buildStep());
    p.scheduler().onRequestFinished(sent, BlockIds.of(from), FinishReason.LENGTH);
    prefiller.startStep(p.scheduler().buildStep());

    KvRequest pulled =
        new KvRequest(
            "d-" + id,
            16,
            KvTransferParams.forDecoder(id, p.config().engineId(), bootstrapOf(p).toString()));
    d.scheduler().onRequestArrived(pulled);
    MatchedTokens matched = d.scheduler().matchedTokens(pulled, 0);
    d.scheduler().onBlocksAllocated(pulled, BlockIds.of(to), matched.tokens());
    decoder.startStep(d.scheduler().buildStep());
    return decoder.await(Duration.ofSeconds(60));
  }

  private static ConnectorConfig.Builder secret(KvRole role, String secret) {
    return config(role).bootstrapAllowedHosts(List.of("127.0.0.1")).sharedSecret(secret);
  }

  @Test
  void whoSharesTheSecretWorksTogetherAndNobodyElse() throws Exception {
    KvConnector p = open(secret(KvRole.PRODUCER, "correct-horse-battery").build());
    KvWorker prefiller = p.openWorker(RankLayout.single());
    register(prefiller);
    KvConnector wrong = open(secret(KvRole.CONSUMER, "another-horse-battery").build());
    KvConnector none = open(config(KvRole.CONSUMER).build());
    for (KvConnector stranger : List.of(wrong, none)) {
      KvWorker decoder = stranger.openWorker(RankLayout.single());
      register(decoder);
      StepResult result =
          fetch(p, prefiller, stranger, decoder, "t-" + stranger.config().engineId(), 3, 5);
      assertThat(result.failed()).hasSize(1);
      Failure failure = result.failed().getFirst();
      assertThat(failure.stage()).isEqualTo(FailureStage.BOOTSTRAP);
      assertThat(failure.quiet()).isTrue();
      assertThat(failure.reason()).contains("status=401", "shared_secret").doesNotContain("horse");
    }
    KvConnector d = open(secret(KvRole.CONSUMER, "correct-horse-battery").build());
    KvWorker decoder = d.openWorker(RankLayout.single());
    register(decoder);
    assertThat(fetch(p, prefiller, d, decoder, "t", 3, 5).received()).containsExactly("d-t");
  }

  @Test
  void aWrongSecretAtTheSideChannelFailsThePullWithTheReason() throws Exception {
    try (BootstrapServer open =
        BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"))) {
      String address = "127.0.0.1:" + open.port();
      KvConnector p =
          open(
              secret(KvRole.PRODUCER, "correct-horse-battery")
                  .bootstrapServerAddress(address)
                  .build());
      KvWorker prefiller = p.openWorker(RankLayout.single());
      register(prefiller);
      KvConnector wrong = open(secret(KvRole.CONSUMER, "another-horse-battery").build());
      KvConnector none = open(config(KvRole.CONSUMER).build());
      for (KvConnector stranger : List.of(wrong, none)) {
        KvWorker decoder = stranger.openWorker(RankLayout.single());
        register(decoder);
        Failure failure =
            fetch(p, prefiller, stranger, decoder, "t-" + stranger.config().engineId(), 3, 5)
                .failed()
                .getFirst();
        assertThat(failure.stage()).isEqualTo(FailureStage.SIDE_CHANNEL);
        assertThat(failure.quiet()).isTrue();
        assertThat(failure.reason()).contains("shared_secret").doesNotContain("horse");
      }
    }
  }

  @Test
  void aDecoderThatSendsTheSecretAnywhereIsWarned() {
    try (CapturedLog log = new CapturedLog()) {
      open(secret(KvRole.PRODUCER, "correct-horse-battery").build());
      open(secret(KvRole.CONSUMER, "correct-horse-battery").build());
      assertThat(log.lines("WARN")).isEmpty();
      open(config(KvRole.CONSUMER).sharedSecret("correct-horse-battery").build());
      assertThat(log.lines("WARN"))
          .singleElement()
          .asString()
          .contains("bootstrap_allowed_hosts")
          .doesNotContain("horse");
    }
  }

  @Test
  void closingBeginsWithTheServersDrain() {
    List<String> health = new CopyOnWriteArrayList<>();
    KvConnector[] connector = new KvConnector[1];
    TransferListener listener =
        new TransferListener() {
          @Override
          public void workerClosed(String engineId) {
            health.add(get(bootstrapOf(connector[0]).resolve("/health")));
          }
        };
    connector[0] =
        new MooncakeConnectorProvider()
            .open(config(KvRole.PRODUCER).build(), hooks.withListener(listener));
    opened.add(connector[0]);
    register(connector[0].openWorker(RankLayout.single()));
    assertThat(get(bootstrapOf(connector[0]).resolve("/health"))).contains("ok");
    connector[0].close();
    assertThat(health).containsExactly("{\"status\":\"draining\"}");
  }

  private static String get(URI uri) {
    try (HttpClient http = HttpClient.newHttpClient()) {
      return http.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString())
          .body();
    } catch (IOException e) {
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  private static URI bootstrapOf(KvConnector connector) {
    URI address = connector.bootstrapAddress();
    assertThat(address).isNotNull();
    return address == null ? URI.create("none:") : address;
  }

  @Test
  void onlyAPrefillersFirstRankHostsTheServer() {
    KvConnector p = open(config(KvRole.PRODUCER).build());
    assertThat(p.bootstrapAddress()).as("before a worker").isNull();
    KvWorker second = p.openWorker(new RankLayout(1, 2, 0, 1, 0));
    assertThat(p.bootstrapAddress()).isNull();
    KvWorker first = p.openWorker(new RankLayout(0, 2, 0, 1, 0));
    assertThat(p.bootstrapAddress())
        .isEqualTo(URI.create("http://127.0.0.1:" + p.config().bootstrapPort()));
    register(first);
    register(second);
    KvConnector d = open(config(KvRole.CONSUMER).build());
    d.openWorker(RankLayout.single());
    assertThat(d.bootstrapAddress()).isNull();
  }

  @Test
  void theServerAnswersBeforeMemoryIsRegistered() throws Exception {
    KvConnector p = open(config(KvRole.PRODUCER).build());
    KvWorker worker = p.openWorker(RankLayout.single());
    assertThat(query(p)).isEqualTo("{}");
    register(worker);
    assertThat(query(p)).contains(p.config().engineId());
  }

  private static String query(KvConnector connector) throws Exception {
    try (HttpClient http = HttpClient.newHttpClient()) {
      return http.send(
              HttpRequest.newBuilder(bootstrapOf(connector).resolve("/query")).build(),
              HttpResponse.BodyHandlers.ofString())
          .body();
    }
  }

  @Test
  void aServerElsewhereIsUsedAndNoneIsStarted() {
    KvConnector p = open(config(KvRole.PRODUCER).build());
    p.openWorker(RankLayout.single());
    String elsewhere = "127.0.0.1:" + p.config().bootstrapPort();
    KvConnector q =
        open(config(KvRole.PRODUCER).engineId("q").bootstrapServerAddress(elsewhere).build());
    KvWorker worker = q.openWorker(new RankLayout(0, 1, 0, 1, 1));
    register(worker);
    assertThat(q.bootstrapAddress()).isEqualTo(URI.create("http://" + elsewhere));
  }

  @Test
  void aRankHasOneWorkerUntilItIsClosed() {
    KvConnector d = open(config(KvRole.CONSUMER).build());
    KvWorker worker = d.openWorker(RankLayout.single());
    assertThatThrownBy(() -> d.openWorker(RankLayout.single()))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("has a worker already");
    worker.close();
    assertThat(d.openWorker(RankLayout.single()).isHealthy()).isTrue();
  }

  @Test
  void aPortThatIsTakenIsToldWithWhatToDo() throws IOException {
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      KvConnector p = open(config(KvRole.PRODUCER).bootstrapPort(taken.getLocalPort()).build());
      assertThatThrownBy(() -> p.openWorker(RankLayout.single()))
          .isInstanceOf(BootstrapUnavailableException.class)
          .hasMessageContaining("port=" + taken.getLocalPort())
          .hasMessageContaining("VLLM_MOONCAKE_BOOTSTRAP_PORT");
    }
    assertThat(engines.opened()).isEmpty();
  }

  @Test
  void anEngineThatDoesNotOpenLeavesNothingBehind() {
    KvConnector p = open(config(KvRole.PRODUCER).build());
    engines.faults().failNextOpen(new EngineUnavailableException("no such library", null));
    assertThatThrownBy(() -> p.openWorker(RankLayout.single()))
        .isInstanceOf(EngineUnavailableException.class);
    assertThat(p.bootstrapAddress()).as("its server is closed again").isNull();
    assertThat(p.openWorker(RankLayout.single()).isHealthy()).isTrue();
  }

  @Test
  void hostListsAreReadBeforeAnythingStarts() {
    for (String bad : List.of("10.0.0.0/99", "http://x")) {
      ConnectorConfig peers = config(KvRole.PRODUCER).peerAllowedHosts(List.of(bad)).build();
      assertThatThrownBy(() -> open(peers)).hasMessageContaining("peer_allowed_hosts=" + bad);
      ConnectorConfig servers = config(KvRole.PRODUCER).bootstrapAllowedHosts(List.of(bad)).build();
      assertThatThrownBy(() -> open(servers))
          .hasMessageContaining("bootstrap_allowed_hosts=" + bad);
    }
  }

  @Test
  void withoutAnEngineOnThePathTheArtifactIsNamed() {
    KvConnector d =
        new MooncakeConnectorProvider()
            .open(config(KvRole.CONSUMER).build(), ConnectorHooks.none());
    opened.add(d);
    assertThatThrownBy(() -> d.openWorker(RankLayout.single()))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessageContaining("transfer-native");
  }

  @Test
  void aClosedConnectorOpensNothingAndClosesOnce() {
    KvConnector d = open(config(KvRole.CONSUMER).build());
    KvWorker worker = d.openWorker(RankLayout.single());
    CompletableFuture<?> other = CompletableFuture.runAsync(d::close);
    d.close();
    assertThat(worker.isHealthy()).isFalse();
    other.join();
    d.close();
    assertThatThrownBy(() -> d.openWorker(RankLayout.single()))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("connector is closed");
    assertThatThrownBy(() -> worker.release("t")).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void wrongCachesAreRefusedAndTheWorkerLivesOn() {
    KvConnector d = open(config(KvRole.CONSUMER).build());
    KvWorker worker = d.openWorker(RankLayout.single());
    engines.faults().refuseRange(0);
    assertThatThrownBy(() -> register(worker)).isInstanceOf(KvConnectorException.class);
    register(worker);
    assertThat(worker.stats().registeredBytes()).isEqualTo((long) BLOCKS * BLOCK_BYTES);
  }
}
