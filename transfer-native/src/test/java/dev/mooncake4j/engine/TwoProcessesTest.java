package dev.mooncake4j.engine;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The native engine over tcp on loopback, with the peer in a JVM of its own. */
@Timeout(value = 180, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TwoProcessesTest {
  private static final int KIB = 1024;
  private static final List<String> OPTIONS = List.of("--enable-native-access=ALL-UNNAMED");
  private static final long PATIENT = SECONDS.toNanos(90);

  private final long seed = Long.getLong("m4j.seed", System.nanoTime());
  private final Arena arena = Arena.ofShared();
  private final TransferEngine engine = Engines.open();
  private final ExecutorService threads =
      Executors.newCachedThreadPool(Thread.ofPlatform().daemon().factory());

  @BeforeAll
  static void engineIsThere() {
    Engines.require();
  }

  @AfterEach
  void close() {
    engine.close();
    threads.shutdownNow();
    if (engine.stats().equals(new EngineStats(0, 0, 0, 0))) {
      arena.close();
    }
  }

  /** A peer, and this side's memory for it: what to send, and what the peer should hold. */
  private final class Peer implements AutoCloseable {
    final ChildJvm child;
    final int port;
    final long address;
    final MemorySegment source;
    final MemorySegment expected;

    Peer(long bytes, Map<String, String> environment) throws IOException {
      child = ChildJvm.start(environment, OPTIONS, PeerMain.class, Long.toString(bytes));
      String[] ready = child.readLine().split(" ", -1);
      assertThat(ready[0]).isEqualTo("ready");
      port = Integer.parseInt(ready[1]);
      address = Long.parseLong(ready[2]);
      source = arena.allocate(bytes, 4096);
      expected = arena.allocate(bytes, 4096);
      SplittableRandom random = new SplittableRandom(seed);
      for (long i = 0; i + 8 <= bytes; i += 8) {
        source.set(ValueLayout.JAVA_LONG, i, random.nextLong());
      }
      engine.register(List.of(new MemoryRange(source.address(), bytes, "cpu:0")));
    }

    String name() {
      return HostAddresses.join("127.0.0.1", port);
    }

    void add(DescriptorList list, long from, long to, long length) {
      list.add(source.address() + from, address + to, length);
      MemorySegment.copy(source, from, expected, to, length);
    }

    /** Scattered slots between two indices: slot i goes to the mirrored place. */
    DescriptorList slots(int first, int end, int of, int size, int length) {
      DescriptorList list = new DescriptorList(end - first);
      for (int i = first; i < end; i++) {
        add(list, (long) i * size, (long) (of - 1 - i) * size, length);
      }
      return list;
    }

    void assertArrived() throws IOException {
      child.writeLine("sum");
      assertThat(child.readLine())
          .as("seed=" + seed)
          .isEqualTo("sum " + PeerMain.checksum(expected));
    }

    void signal(String name) throws IOException, InterruptedException {
      Process kill =
          new ProcessBuilder("kill", "-" + name, Long.toString(child.process().pid())).start();
      assertThat(kill.waitFor(10, SECONDS)).isTrue();
      assertThat(kill.exitValue()).isZero();
    }

    @Override
    public void close() {
      child.close();
    }
  }

  private static void assertCompleted(WriteResult result) {
    assertThat(result.message()).isEmpty();
    assertThat(result.isCompleted()).isTrue();
  }

  private static void awaitTrue(String what, BooleanSupplier condition) {
    long end = System.nanoTime() + SECONDS.toNanos(60);
    while (!condition.getAsBoolean()) {
      assertThat(System.nanoTime() - end).as(what).isNegative();
      LockSupport.parkNanos(1_000_000);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 64, 1_000, 100_000})
  void descriptorsArriveInAnotherProcess(int count) throws IOException {
    int slot = 4 * KIB;
    try (Peer peer = new Peer((long) count * slot, Map.of());
        DescriptorList list = peer.slots(0, count, count, slot, slot - 5)) {
      long begin = System.nanoTime();
      assertCompleted(engine.write(peer.name(), list, PATIENT));
      System.out.println(
          count + " descriptors of 4 KiB took " + (System.nanoTime() - begin) / 1000 + " us");
      peer.assertArrived();
    }
    assertThat(engine.stats().liveBatches()).isZero();
  }

  @Test
  void tenWritesOfFiveThousandAtOnceArrive() throws Exception {
    int each = 5_000;
    int slot = 2 * KIB;
    int all = 10 * each;
    try (Peer peer = new Peer((long) all * slot, Map.of())) {
      List<Future<WriteResult>> writes = new ArrayList<>();
      for (int t = 0; t < 10; t++) {
        DescriptorList list = peer.slots(t * each, (t + 1) * each, all, slot, slot - 3);
        writes.add(threads.submit(() -> engine.write(peer.name(), list, PATIENT)));
      }
      for (Future<WriteResult> write : writes) {
        assertCompleted(write.get(120, SECONDS));
      }
      peer.assertArrived();
    }
  }

  @Test
  void aPeerThatIsKilledEndsTheWriteAndLeavesNothing() throws Exception {
    int count = 50_000;
    int slot = 4 * KIB;
    try (Peer peer = new Peer((long) count * slot, Map.of());
        DescriptorList list = peer.slots(0, count, count, slot, slot - 5)) {
      Future<WriteResult> write =
          threads.submit(() -> engine.write(peer.name(), list, SECONDS.toNanos(20)));
      awaitTrue("under way", () -> engine.stats().descriptorsInFlight() > 0 || write.isDone());
      peer.child.kill();
      WriteResult result = write.get(30, SECONDS);
      assertThat(result.isCompleted()).isFalse();
      assertThat(result.message()).contains(peer.name(), "descriptors=" + count);
      result.quiet().toCompletableFuture().get(60, SECONDS);
      awaitTrue("no batch lives", () -> engine.stats().liveBatches() == 0);
      // The next one is told soon, and others are not touched.
      WriteResult again = engine.write(peer.name(), list, SECONDS.toNanos(20));
      assertThat(again.status()).isEqualTo(WriteResult.Status.FAILED);
    }
    try (Peer other = new Peer(KIB, Map.of());
        DescriptorList list = other.slots(0, 1, 1, KIB, KIB)) {
      assertCompleted(engine.write(other.name(), list, PATIENT));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"CONT", "KILL"})
  void aPeerThatStandsStillRunsOutOfTimeAndIsQuietWhenItEnds(String end) throws Exception {
    int count = 20_000;
    int slot = 4 * KIB;
    try (Peer peer = new Peer((long) count * slot, Map.of());
        DescriptorList one = peer.slots(0, 1, count, slot, slot - 5);
        DescriptorList list = peer.slots(0, count, count, slot, slot - 5)) {
      assertCompleted(engine.write(peer.name(), one, PATIENT));
      peer.signal("STOP");
      WriteResult result = engine.write(peer.name(), list, Duration.ofSeconds(1).toNanos());
      assertThat(result.status()).isEqualTo(WriteResult.Status.TIMED_OUT);
      CompletableFuture<Void> quiet = result.quiet().toCompletableFuture();
      assertThat(quiet).isNotDone();
      assertThat(engine.stats().liveBatches()).isPositive();
      peer.signal(end);
      quiet.get(60, SECONDS);
      awaitTrue("no batch lives", () -> engine.stats().liveBatches() == 0);
      if (end.equals("CONT")) {
        assertCompleted(engine.write(peer.name(), list, PATIENT));
        peer.assertArrived();
      }
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aPeerThatCameBackAtItsAddressIsFound(boolean forgotten) throws Exception {
    // An engine cannot choose its port; the address is that of a forwarder, which stays.
    try (Forwarder forwarder = new Forwarder()) {
      String name = HostAddresses.join("127.0.0.1", forwarder.port());
      try (Peer peer = new Peer(64 * KIB, Map.of());
          DescriptorList list = peer.slots(0, 10, 16, 4 * KIB, 4 * KIB - 1)) {
        forwarder.to(peer.port);
        assertCompleted(engine.write(name, list, PATIENT));
        peer.assertArrived();
      }
      try (Peer peer = new Peer(64 * KIB, Map.of());
          DescriptorList list = peer.slots(0, 10, 16, 4 * KIB, 4 * KIB - 1)) {
        forwarder.to(peer.port);
        if (forgotten) {
          engine.forgetPeer(name);
        } else {
          // What is known of it is old; the failure tells.
          assertThat(engine.write(name, list, PATIENT).status())
              .isEqualTo(WriteResult.Status.FAILED);
        }
        assertCompleted(engine.write(name, list, PATIENT));
        peer.assertArrived();
      }
    }
  }

  @Test
  void aJvmWithAnOpenEngineEndsWhenItIsToldTo() throws Exception {
    try (Peer exits = new Peer(KIB, Map.of());
        Peer ended = new Peer(KIB, Map.of())) {
      exits.child.writeLine("exit");
      assertThat(exits.child.process().waitFor(30, TimeUnit.SECONDS)).isTrue();
      assertThat(exits.child.process().exitValue()).isZero();
      ended.signal("TERM");
      assertThat(ended.child.process().waitFor(30, TimeUnit.SECONDS)).isTrue();
      assertThat(ended.child.process().exitValue()).isEqualTo(143);
    }
  }
}
