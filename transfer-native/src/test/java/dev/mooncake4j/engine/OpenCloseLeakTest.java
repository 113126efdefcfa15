package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Engines that come and go leave no thread and no descriptor behind. */
@Timeout(value = 300, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OpenCloseLeakTest {
  private static final int BYTES = 64 * 1024;

  @BeforeAll
  static void engineIsThere() {
    Engines.require();
  }

  @Test
  void twoHundredEnginesLeaveNothing() throws IOException {
    try (Arena arena = Arena.ofShared();
        TransferEngine standing = Engines.open()) {
      MemorySegment target = arena.allocate(BYTES, 64);
      standing.register(List.of(new MemoryRange(target.address(), BYTES, "cpu:0")));
      // The library's own threads, and the JVM's, are there after some rounds.
      rounds(10, standing, target);
      int threads = awaitAtMost(Path.of("/proc/self/task"), 0);
      int files = awaitAtMost(Path.of("/proc/self/fd"), 0);
      long resident = resident();
      rounds(200, standing, target);
      // A few of the JVM's own come and go; 200 engines would leave 200.
      assertThat(awaitAtMost(Path.of("/proc/self/task"), threads + 5))
          .as("threads, after 10 engines: " + threads)
          .isLessThanOrEqualTo(threads + 5);
      assertThat(awaitAtMost(Path.of("/proc/self/fd"), files + 5))
          .as("file descriptors, after 10 engines: " + files)
          .isLessThanOrEqualTo(files + 5);
      System.out.println(
          "OBS 200 engines: threads "
              + threads
              + " -> "
              + awaitAtMost(Path.of("/proc/self/task"), 0)
              + ", fds "
              + files
              + " -> "
              + awaitAtMost(Path.of("/proc/self/fd"), 0)
              + ", resident kB "
              + resident
              + " -> "
              + resident());
    }
  }

  private static void rounds(int count, TransferEngine standing, MemorySegment target) {
    String peer = HostAddresses.join(standing.host(), standing.port());
    try (Arena arena = Arena.ofShared();
        DescriptorList list = new DescriptorList()) {
      MemorySegment source = arena.allocate(BYTES, 64);
      list.add(source.address(), target.address(), BYTES);
      for (int i = 0; i < count; i++) {
        try (TransferEngine engine = Engines.open()) {
          engine.register(List.of(new MemoryRange(source.address(), BYTES, "cpu:0")));
          assertThat(engine.write(peer, list, Duration.ofSeconds(30).toNanos()).message())
              .isEmpty();
        }
      }
    }
  }

  /** The number of entries, once there are few enough or some time has passed. */
  private static int awaitAtMost(Path folder, int few) throws IOException {
    long end = System.nanoTime() + Duration.ofSeconds(few == 0 ? 1 : 10).toNanos();
    int count = count(folder);
    while (count > few && System.nanoTime() - end < 0) {
      LockSupport.parkNanos(10_000_000);
      count = count(folder);
    }
    return count;
  }

  private static int count(Path folder) throws IOException {
    try (Stream<Path> entries = Files.list(folder)) {
      return (int) entries.count();
    }
  }

  private static long resident() throws IOException {
    return Files.readAllLines(Path.of("/proc/self/status")).stream()
        .filter(line -> line.startsWith("VmRSS:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
        .sum();
  }
}
