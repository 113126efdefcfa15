package dev.mooncake4j.testkit;

import static dev.mooncake4j.testkit.ContractBench.assertCompleted;
import static dev.mooncake4j.testkit.ContractBench.assertFailed;
import static dev.mooncake4j.testkit.ContractBench.assertNotCompleted;
import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.EngineStats;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.testkit.ContractBench.Pair;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The contract of a {@link TransferEngine}, as tests: extend it and open your engine.
 *
 * <pre>{@code
 * class MyEngineContractTest extends TransferEngineContract {
 *   @Override
 *   protected TransferEngine open(EngineConfig config) {
 *     return new MyEngine(config);
 *   }
 * }
 * }</pre>
 *
 * <p>Every test opens engines of its own, and after every test no batch may be left. All memory is
 * the host's and outlives the engines; where an engine still had something under way, it is leaked
 * rather than freed below it. Random bytes come from a seed that is told where a test fails, and
 * that {@code -Dm4j.seed=…} sets. It takes some seconds on two cores with an engine that does
 * 20,000 descriptors a second.
 *
 * <p>Longer than other classes here, because a contract is read from one place.
 */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
public abstract class TransferEngineContract {
  private static final int KIB = 1024;
  private static final int MIB = 1024 * KIB;

  final long seed = Long.getLong("m4j.seed", System.nanoTime());
  private ContractBench bench;

  @RegisterExtension
  final TestExecutionExceptionHandler seedOfFailure =
      (context, failure) -> {
        failure.addSuppressed(new AssertionError("random bytes of this test: -Dm4j.seed=" + seed));
        throw failure;
      };

  /** For subclasses. */
  protected TransferEngineContract() {}

  /** Opens an engine; the contract closes it. */
  protected abstract TransferEngine open(EngineConfig config);

  /** What engines are opened with; by default tcp on 127.0.0.1 with the system's clock. */
  protected EngineConfig config() {
    return new EngineConfig("127.0.0.1", "tcp", List.of(), null, NanoClock.SYSTEM);
  }

  /**
   * Whether engines in one process reach one another, as most do; where not, an engine writes to
   * itself, and tests of a peer that ends are left out.
   */
  protected boolean supportsTwoEnginesInOneProcess() {
    return true;
  }

  /**
   * Opens an engine at the address of one that is closed, as a peer that came back.
   *
   * @return the engine, or {@code null} where ports cannot be chosen: the test is left out
   */
  protected @Nullable TransferEngine reopenAt(EngineConfig config, int port) {
    return null;
  }

  /** The time that one write is allowed where it is to succeed. */
  protected Duration writeTimeout() {
    return Duration.ofSeconds(60);
  }

  /** The time that one write is allowed where the peer is not there. */
  protected Duration deadPeerTimeout() {
    return Duration.ofSeconds(3);
  }

  /** The time within which {@code close} must return, whatever is under way. */
  protected Duration closeBound() {
    return Duration.ofSeconds(30);
  }

  @BeforeEach
  void setUp() {
    bench = new ContractBench(this);
  }

  @AfterEach
  @Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void nothingIsLeftUnderWay() {
    bench.close();
  }

  // ---- Addresses

  @Test
  void reportsWhereItIsReached() {
    TransferEngine engine = bench.open();
    assertThat(engine.host()).isEqualTo(config().host());
    assertThat(engine.port()).isBetween(1, 65535);
    assertThat(engine.transport()).isNotBlank();
    assertThat(bench.open().port()).isNotEqualTo(engine.port());
  }

  @Test
  void startsWithNothing() {
    assertThat(bench.open().stats()).isEqualTo(new EngineStats(0, 0, 0, 0));
  }

  // ---- Writes that succeed

  @ParameterizedTest(name = "{0} descriptors, {1}")
  @CsvSource({
    "1, ASCENDING",
    "64, ASCENDING",
    "1000, ASCENDING",
    "64, DESCENDING",
    "1000, DESCENDING",
    "1, SCATTERED",
    "64, SCATTERED",
    "1000, SCATTERED"
  })
  void writesArriveAndTouchNothingElse(int count, Order order) {
    // An odd size, so that nothing is aligned; a gap of one slot at either end stays free.
    int slot = 4099;
    Pair pair = bench.pair((count + 2L) * slot);
    try (DescriptorList list = new DescriptorList()) {
      int[] to = permutation(count, order);
      for (int i = 0; i < count; i++) {
        int from = order == Order.SCATTERED ? i : to[i];
        int length = order == Order.SCATTERED ? slot - 1 - i % 7 : slot;
        pair.traffic.add(list, (from + 1L) * slot, (to[i] + 1L) * slot, length);
      }
      assertThat(pair.write(list).message()).isEmpty();
    }
    pair.assertArrived();
  }

  @Test
  void noDescriptorsCompleteAtOnceWhoeverThePeerIs() throws IOException {
    TransferEngine engine = bench.open();
    try (DescriptorList list = new DescriptorList()) {
      assertCompleted(engine.write(HostAddresses.join("127.0.0.1", freePort()), list, 1));
    }
  }

  @Test
  void descriptorsOfSeveralMebibytesArrive() {
    long piece = 5L * MIB + 3;
    Pair pair = bench.pair(3 * piece + 100);
    try (DescriptorList list = new DescriptorList()) {
      pair.traffic.add(list, 0, 2 * piece + 100, piece);
      pair.traffic.add(list, piece, 50, piece);
      pair.traffic.add(list, 2 * piece, 75 + piece, piece);
      assertCompleted(pair.write(list));
    }
    pair.assertArrived();
  }

  @Test
  void aHundredThousandDescriptorsArriveInOneWrite() {
    int count = 100_000;
    Pair pair = bench.pair(count * 64L);
    try (DescriptorList list = new DescriptorList()) {
      int[] to = permutation(count, Order.SCATTERED);
      for (int i = 0; i < count; i++) {
        pair.traffic.add(list, i * 64L, to[i] * 64L, 48);
      }
      assertCompleted(pair.write(list));
    }
    pair.assertArrived();
  }

  @Test
  void aListIsNotReadAfterTheWriteHasReturned() {
    Pair pair = bench.pair(64 * KIB);
    try (DescriptorList list = new DescriptorList()) {
      for (int round = 0; round < 20; round++) {
        list.clear();
        pair.traffic.add(list, round * 2048L, (19 - round) * 2048L, 1024);
        pair.traffic.add(list, round * 2048L + 1024, (19 - round) * 2048L + 1030, 1000);
        assertCompleted(pair.write(list));
      }
    }
    pair.assertArrived();
  }

  @Test
  void tenThreadsWriteToOnePeerAtOnce() throws Exception {
    int each = 5_000;
    TransferEngine receiver = bench.open();
    TransferEngine sender = bench.openSender(receiver);
    List<Pair> pairs = new ArrayList<>();
    for (int t = 0; t < 10; t++) {
      pairs.add(bench.pair(sender, receiver, each * 128L));
    }
    bench.inParallel(
        pairs,
        pair -> {
          try (DescriptorList list = new DescriptorList(each)) {
            for (int i = 0; i < each; i++) {
              pair.traffic.add(list, i * 128L, (each - 1 - i) * 128L + 3, 100);
            }
            assertCompleted(pair.write(list));
          }
        });
    pairs.forEach(Pair::assertArrived);
  }

  @Test
  void enginesWriteToEachOtherAtOnce() throws Exception {
    assumeTrue(supportsTwoEnginesInOneProcess());
    List<TransferEngine> engines = List.of(bench.open(), bench.open(), bench.open());
    List<Pair> pairs = new ArrayList<>();
    for (TransferEngine from : engines) {
      for (TransferEngine to : engines) {
        if (!from.equals(to)) {
          pairs.add(bench.pair(from, to, 256 * KIB));
        }
      }
    }
    bench.inParallel(
        pairs,
        pair -> {
          for (int round = 0; round < 10; round++) {
            pair.writeGood();
          }
        });
    pairs.forEach(Pair::assertArrived);
  }

  @Test
  void registrationsComeAndGoWhileOthersWrite() throws Exception {
    Pair pair = bench.pair(64 * KIB);
    MemoryRange other = bench.allocateRange(64 * KIB);
    Future<?> writing =
        bench
            .threads()
            .submit(
                () -> {
                  for (int round = 0; round < 40; round++) {
                    pair.writeGood();
                  }
                });
    for (int round = 0; round < 20; round++) {
      pair.sender.register(List.of(other));
      pair.sender.unregister(List.of(other));
    }
    writing.get(60, TimeUnit.SECONDS);
    pair.assertArrived();
  }

  // ---- Writes that fail

  @Test
  void aWriteToMemoryThatThePeerHasNotRegisteredFails() {
    Pair pair = bench.pair(64 * KIB);
    pair.writeGood();
    MemorySegment hidden = bench.allocate(4 * KIB);
    try (DescriptorList list = new DescriptorList()) {
      list.add(pair.traffic.source().address(), hidden.address(), 4 * KIB);
      assertFailed(pair.write(list));
    }
    assertThat(hidden.mismatch(bench.allocate(4 * KIB))).as("first byte written").isEqualTo(-1);
    pair.writeGood();
    pair.assertArrived();
  }

  @Test
  void oneDescriptorToUnregisteredMemoryFailsTheWrite() {
    Pair pair = bench.pair(300 * KIB);
    MemorySegment hidden = bench.allocate(KIB);
    try (DescriptorList list = new DescriptorList()) {
      for (int i = 0; i < 100; i++) {
        pair.traffic.add(list, i * 2048L, (99 - i) * 2048L, 1024);
        if (i == 50) {
          list.add(pair.traffic.source().address(), hidden.address(), KIB);
        }
      }
      assertFailed(pair.write(list));
    }
    pair.traffic.assertPartlyArrivedAtMost();
    assertThat(hidden.mismatch(bench.allocate(KIB))).as("first byte written").isEqualTo(-1);
    pair.writeGood();
  }

  @Test
  void aSourceThatIsNotRegisteredFailsBeforeAnythingIsWritten() {
    Pair pair = bench.pair(64 * KIB);
    MemorySegment hidden = bench.allocate(KIB);
    long past = pair.traffic.source().byteSize() - 512;
    try (DescriptorList list = new DescriptorList()) {
      pair.traffic.addUnexpected(list, 0, 0, 8 * KIB);
      list.add(hidden.address(), pair.traffic.destination().address() + 32 * KIB, KIB);
      assertFailed(pair.write(list));
      list.clear();
      pair.traffic.addUnexpected(list, 0, 0, 8 * KIB);
      pair.traffic.addUnexpected(list, past, 32 * KIB, KIB);
      assertFailed(pair.write(list));
    }
    pair.traffic.assertUntouched();
    pair.writeGood();
    pair.assertArrived();
  }

  @Test
  void aWriteToNobodyEndsInTime() throws IOException {
    Pair pair = bench.pair(8 * KIB);
    try (DescriptorList list = new DescriptorList()) {
      pair.traffic.addUnexpected(list, 0, 0, KIB);
      for (String peer : List.of(HostAddresses.join("127.0.0.1", freePort()), "nobody", "")) {
        assertNotCompleted(bench.write(pair.sender, peer, list, deadPeerTimeout()));
      }
    }
    pair.traffic.assertUntouched();
    pair.writeGood();
    pair.assertArrived();
  }

  @Test
  void aWriteToAPeerThatHasClosedEndsInTime() {
    assumeTrue(supportsTwoEnginesInOneProcess());
    Pair pair = bench.pair(8 * KIB);
    Pair other = bench.pair(pair.sender, bench.open(), 8 * KIB);
    pair.writeGood();
    bench.close(pair.receiver);
    try (DescriptorList list = new DescriptorList()) {
      pair.traffic.addUnexpected(list, 0, 0, KIB);
      assertNotCompleted(bench.write(pair.sender, pair.peer(), list, deadPeerTimeout()));
    }
    other.writeGood();
    other.assertArrived();
  }

  @Test
  void aPeerThatCameBackIsFoundOnceItIsForgotten() {
    assumeTrue(supportsTwoEnginesInOneProcess());
    Pair pair = bench.pair(8 * KIB);
    pair.writeGood();
    bench.close(pair.receiver);
    TransferEngine again = reopenAt(config(), pair.receiver.port());
    if (again == null) {
      Assumptions.abort("ports cannot be chosen");
      return;
    }
    bench.adopt(again);
    pair.sender.forgetPeer(pair.peer());
    bench.pair(pair.sender, again, 8 * KIB).writeGood();
  }

  @Test
  void forgettingAnUnknownPeerDoesNothing() throws IOException {
    Pair pair = bench.pair(8 * KIB);
    pair.sender.forgetPeer(HostAddresses.join("127.0.0.1", freePort()));
    pair.writeGood();
    pair.sender.forgetPeer(pair.peer());
    pair.writeGood();
    pair.assertArrived();
  }

  @Test
  void aWriteThatRunsOutOfTimeIsQuietInTheEnd() throws Exception {
    int count = 20_000;
    Pair pair = bench.pair(count * 128L);
    try (DescriptorList list = new DescriptorList()) {
      for (int i = 0; i < count; i++) {
        pair.traffic.add(list, i * 128L, (count - 1 - i) * 128L, 100);
      }
      WriteResult result = bench.write(pair.sender, pair.peer(), list, Duration.ofNanos(1));
      // A fast engine may be done all the same.
      assertThat(result.status()).isIn(WriteResult.Status.TIMED_OUT, WriteResult.Status.COMPLETED);
      list.clear();
      result.quiet().toCompletableFuture().get(60, TimeUnit.SECONDS);
    }
    bench.awaitIdle(pair.sender);
    pair.traffic.assertPartlyArrivedAtMost();
    pair.writeGood();
  }

  // ---- Registrations

  @Test
  void countsWhatIsRegistered() {
    TransferEngine engine = bench.open();
    MemoryRange a = bench.allocateRange(KIB);
    MemoryRange b = bench.allocateRange(3 * KIB);
    MemoryRange c = bench.allocateRange(5 * KIB);
    engine.register(List.of());
    engine.register(List.of(a, b));
    engine.register(List.of(c));
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 3, 9 * KIB));
    engine.unregister(List.of(b));
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 2, 6 * KIB));
    engine.unregister(List.of(c, a));
    engine.unregister(List.of());
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 0, 0));
  }

  @Test
  void neighboursAreRegisteredApart() {
    TransferEngine engine = bench.open();
    MemorySegment memory = bench.allocate(8 * KIB);
    MemoryRange low = Traffic.range(memory.asSlice(0, 4 * KIB));
    MemoryRange high = Traffic.range(memory.asSlice(4 * KIB));
    engine.register(List.of(high, low));
    assertThat(engine.stats().registeredRanges()).isEqualTo(2);
    engine.unregister(List.of(low));
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 1, 4 * KIB));
  }

  @ParameterizedTest(name = "{1} bytes from offset {0}")
  @CsvSource({
    "0, 16384",
    "4096, 4096",
    "0, 1",
    "16383, 1",
    "-4096, 4097",
    "16383, 4096",
    "-4096, 24576"
  })
  void anOverlapIsRefusedAndAllOfTheCallTakenBack(int offset, int length) {
    TransferEngine receiver = bench.open();
    TransferEngine sender = bench.openSender(receiver);
    MemorySegment memory = bench.allocate(32 * KIB);
    MemorySegment taken = memory.asSlice(8 * KIB, 16 * KIB);
    MemoryRange bad = new MemoryRange(taken.address() + offset, length, "cpu:0");
    Traffic good = bench.traffic(8 * KIB);
    sender.register(List.of(Traffic.range(taken)));
    EngineStats before = sender.stats();
    assertThatThrownBy(
            () -> sender.register(List.of(good.sourceRange(), bad, good.destinationRange())))
        .isInstanceOf(TransferEngineException.class);
    assertThat(sender.stats()).isEqualTo(before);
    // What the refused call had taken back can be registered, and works.
    Pair pair = bench.pair(sender, receiver, good);
    pair.writeGood();
    pair.assertArrived();
  }

  @Test
  void anOverlapWithinOneCallIsRefused() {
    TransferEngine engine = bench.open();
    MemorySegment memory = bench.allocate(16 * KIB);
    MemoryRange a = Traffic.range(memory.asSlice(0, 8 * KIB));
    MemoryRange b = Traffic.range(memory.asSlice(4 * KIB, 8 * KIB));
    for (List<MemoryRange> ranges : List.of(List.of(a, a), List.of(a, b), List.of(b, a))) {
      assertThatThrownBy(() -> engine.register(ranges)).isInstanceOf(TransferEngineException.class);
      assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 0, 0));
    }
    engine.register(List.of(b));
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 1, 8 * KIB));
  }

  @Test
  void unregisteringWhatIsNotRegisteredIsAnErrorAndTheOthersAreGivenBack() {
    TransferEngine engine = bench.open();
    MemorySegment memory = bench.allocate(16 * KIB);
    MemoryRange a = Traffic.range(memory.asSlice(0, 4 * KIB));
    MemoryRange b = Traffic.range(memory.asSlice(8 * KIB, 4 * KIB));
    MemoryRange unknown = Traffic.range(memory.asSlice(4 * KIB, 4 * KIB));
    engine.register(List.of(a, b));
    assertThatThrownBy(() -> engine.unregister(List.of(a, unknown, b)))
        .isInstanceOf(TransferEngineException.class);
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 0, 0));
    assertThatThrownBy(() -> engine.unregister(List.of(a)))
        .isInstanceOf(TransferEngineException.class);
    engine.register(List.of(a));
    assertThatThrownBy(() -> engine.unregister(List.of(Traffic.range(memory.asSlice(0, KIB)))))
        .isInstanceOf(TransferEngineException.class);
    assertThat(engine.stats()).isEqualTo(new EngineStats(0, 0, 1, 4 * KIB));
  }

  @Test
  void nothingIsWrittenToMemoryThatThePeerHasGivenBack() {
    Pair pair = bench.pair(8 * KIB);
    pair.writeGood();
    pair.receiver.unregister(List.of(pair.traffic.destinationRange()));
    // The same descriptors as before, from other bytes.
    pair.traffic.source().fill((byte) 0x5a);
    try (DescriptorList list = new DescriptorList()) {
      pair.traffic.addUnexpected(list, 0, 0, KIB);
      assertFailed(pair.write(list));
    }
    pair.assertArrived();
    pair.receiver.register(List.of(pair.traffic.destinationRange()));
    pair.sender.forgetPeer(pair.peer());
    pair.writeGood();
    pair.assertArrived();
  }

  @Test
  void nothingIsWrittenFromMemoryThatWasGivenBack() {
    Pair pair = bench.pair(8 * KIB);
    pair.sender.unregister(List.of(pair.traffic.sourceRange()));
    try (DescriptorList list = new DescriptorList()) {
      pair.traffic.addUnexpected(list, 0, 0, KIB);
      assertFailed(pair.write(list));
    }
    pair.traffic.assertUntouched();
    pair.sender.register(List.of(pair.traffic.sourceRange()));
    pair.writeGood();
    pair.assertArrived();
  }

  // ---- Close

  @Test
  void closeIsIdempotentAndEndsAllUse() {
    Pair pair = bench.pair(8 * KIB);
    pair.writeGood();
    TransferEngine engine = pair.sender;
    bench.close(engine);
    engine.close();
    List<MemoryRange> ranges = List.of(bench.allocateRange(KIB));
    assertThatThrownBy(() -> engine.register(ranges)).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> engine.unregister(List.of(pair.traffic.sourceRange())))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> engine.forgetPeer(pair.peer()))
        .isInstanceOf(IllegalStateException.class);
    try (DescriptorList list = new DescriptorList()) {
      assertThatThrownBy(() -> engine.write(pair.peer(), list, 1_000_000))
          .isInstanceOf(IllegalStateException.class);
      pair.traffic.addUnexpected(list, 0, 0, KIB);
      assertThatThrownBy(() -> engine.write(pair.peer(), list, 1_000_000))
          .isInstanceOf(IllegalStateException.class);
    }
    engine.close();
  }

  @Test
  void closeWhileWritesAreUnderWayEndsInTime() throws Exception {
    TransferEngine receiver = bench.open();
    TransferEngine sender = bench.openSender(receiver);
    int count = 2_000;
    CountDownLatch writing = new CountDownLatch(4);
    List<Future<?>> writers = new ArrayList<>();
    for (int t = 0; t < 4; t++) {
      Pair pair = bench.pair(sender, receiver, count * 128L);
      writers.add(bench.threads().submit(() -> pair.writeUntilClosed(count, writing)));
    }
    assertThat(writing.await(60, TimeUnit.SECONDS)).as("all threads have written").isTrue();
    List<Callable<Void>> closers = new ArrayList<>();
    for (int t = 0; t < 3; t++) {
      closers.add(
          () -> {
            sender.close();
            return null;
          });
    }
    for (Future<Void> closer :
        bench.threads().invokeAll(closers, closeBound().toNanos(), NANOSECONDS)) {
      closer.get();
    }
    bench.disown(sender);
    for (Future<?> writer : writers) {
      writer.get(closeBound().toNanos(), NANOSECONDS);
    }
  }

  @Test
  void openingAndClosingAgainAndAgainLeavesNoThread() {
    List<String> before = ownedThreads();
    for (int round = 0; round < 10; round++) {
      TransferEngine engine = bench.open();
      MemoryRange range = bench.allocateRange(KIB);
      engine.register(List.of(range));
      bench.close(engine);
    }
    long deadline = System.nanoTime() + Duration.ofSeconds(10).toNanos();
    while (ownedThreads().size() > before.size() && System.nanoTime() - deadline < 0) {
      LockSupport.parkNanos(1_000_000);
    }
    assertThat(ownedThreads()).hasSizeLessThanOrEqualTo(before.size());
  }

  // ---- Plumbing

  /** How descriptors follow one another: neighbours or not, mergeable or not. */
  enum Order {
    ASCENDING,
    DESCENDING,
    SCATTERED
  }

  private int[] permutation(int count, Order order) {
    int[] to = new int[count];
    for (int i = 0; i < count; i++) {
      to[i] = order == Order.DESCENDING ? count - 1 - i : i;
    }
    if (order == Order.SCATTERED) {
      SplittableRandom random = new SplittableRandom(seed);
      for (int i = count - 1; i > 0; i--) {
        int j = random.nextInt(i + 1);
        int kept = to[i];
        to[i] = to[j];
        to[j] = kept;
      }
    }
    return to;
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private static List<String> ownedThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("m4j-"))
        .sorted()
        .toList();
  }
}
