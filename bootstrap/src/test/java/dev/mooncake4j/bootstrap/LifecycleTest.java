package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.addr;
import static dev.mooncake4j.bootstrap.ServerFixture.sideChannel;
import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Started and closed many times, nothing stays behind: no thread, no descriptor, no port. */
class LifecycleTest {
  private static final int CYCLES = 200;

  /** A cycle of the test. */
  private interface Cycle {
    void run(int number) throws Exception;
  }

  private static Set<String> threads() {
    Set<String> names = new TreeSet<>();
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      String name = thread.getName();
      // Names of the JVM's own come and go; these are ours, the JDK client's and Netty's.
      if (name.startsWith("m4j-")
          || name.startsWith("HttpClient-")
          || name.startsWith("globalEventExecutor")) {
        names.add(name);
      }
    }
    return names;
  }

  private static long descriptors() throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.count();
    }
  }

  private static void assertNothingStays(Cycle cycle) throws Exception {
    // Some beforehand, for what is loaded and opened for good.
    for (int i = 0; i < 5; i++) {
      cycle.run(i);
    }
    noThreads();
    long before = descriptors();
    for (int i = 0; i < CYCLES; i++) {
      cycle.run(i);
    }
    noThreads();
    // The JVM opens some of its own now and then; what leaks in one cycle of ten is more.
    await("descriptors")
        .atMost(Duration.ofSeconds(30))
        .untilAsserted(() -> assertThat(descriptors()).isLessThanOrEqualTo(before + CYCLES / 10));
  }

  private static void noThreads() {
    // Netty's global executor ends a second after its last task.
    await("threads")
        .atMost(Duration.ofSeconds(30))
        .untilAsserted(() -> assertThat(threads()).isEmpty());
  }

  @Test
  void ofServersWithConnectionsOpenAndProbesMade() throws Exception {
    try (ServerSocket alive = sideChannel()) {
      assertNothingStays(
          i -> {
            RawHttp open;
            try (ServerFixture fixture = new ServerFixture()) {
              fixture.server.register(worker("e", 0, addr(alive)));
              assertThat(fixture.register(worker("f", 0, "tcp://h:1")).status()).isEqualTo(400);
              open = new RawHttp(fixture.port());
              open.send("GET /query HTTP/1.1\r\nHost:");
            }
            open.close();
          });
    }
  }

  @Test
  void ofServersThatCannotBind() throws Exception {
    try (ServerSocket busy = sideChannel()) {
      BootstrapServerConfig config =
          BootstrapServerConfig.onPort(busy.getLocalPort()).withHost("127.0.0.1");
      assertNothingStays(
          i ->
              assertThatThrownBy(() -> BootstrapServer.start(config))
                  .isInstanceOf(BootstrapException.class));
    }
  }

  @Test
  void ofClientsInTheMiddleOfSomething() throws Exception {
    assertNothingStays(
        i -> {
          try (ServerFixture fixture = new ServerFixture();
              FakeServer silent = new FakeServer(FakeServer.silent());
              BootstrapClient client =
                  new BootstrapClient(BootstrapClientConfig.withTimeout(Duration.ofSeconds(30)))) {
            URI server = BootstrapAddress.of("127.0.0.1", fixture.port());
            client.register(server, worker("e", 0, "tcp://h:1"));
            assertThat(
                    client.query(server).toCompletableFuture().get(20, TimeUnit.SECONDS).engines())
                .hasSize(1);
            assertThat(client.query(silent.uri()).toCompletableFuture()).isNotDone();
          }
        });
  }

  @Test
  void aServerIsClosedFromAnyNumberOfThreadsAtOnce() throws Exception {
    BootstrapServer server =
        BootstrapServer.start(BootstrapServerConfig.onPort(0).withHost("127.0.0.1"));
    Thread[] closers = new Thread[8];
    for (int i = 0; i < closers.length; i++) {
      closers[i] = Thread.ofVirtual().start(server::close);
    }
    for (Thread closer : closers) {
      assertThat(closer.join(Duration.ofSeconds(20))).isTrue();
    }
    noThreads();
  }

  @Test
  void aProbeUnderWayDoesNotHoldUpClosing() throws Exception {
    try (ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      // A host that says nothing: its queue is full, and it takes no more.
      RawHttp[] queue = new RawHttp[2];
      for (int i = 0; i < queue.length; i++) {
        queue[i] = new RawHttp(full.getLocalPort());
      }
      BootstrapServer server =
          BootstrapServer.start(
              BootstrapServerConfig.onPort(0)
                  .withHost("127.0.0.1")
                  .withProbeTimeout(Duration.ofSeconds(20)));
      server.register(worker("e", 0, addr(full)));
      Thread registering =
          Thread.ofVirtual()
              .start(
                  () ->
                      assertThatThrownBy(() -> server.register(worker("f", 0, "tcp://h:1")))
                          .isInstanceOf(BootstrapException.class));
      await()
          .atMost(Duration.ofSeconds(20))
          .until(() -> threads().stream().anyMatch(name -> name.startsWith("m4j-bootstrap-probe")));
      long start = System.nanoTime();
      server.close();
      assertThat(registering.join(Duration.ofSeconds(10))).isTrue();
      assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(10));
      for (RawHttp http : queue) {
        http.close();
      }
    }
    noThreads();
  }
}
