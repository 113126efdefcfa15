package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** KV memory of five times {@code -Xmx} is registered and moved, and none of it passes the heap. */
@Tag("two-jvms")
@Timeout(value = 180, unit = TimeUnit.SECONDS)
class LargerThanHeapTest {
  private static final int LAYERS = 4;
  private static final int BLOCKS = 1280;
  private static final int BLOCK_BYTES = 65_536;
  private static final long BYTES = (long) LAYERS * BLOCKS * BLOCK_BYTES;
  private static final long MIB = 1 << 20;
  private static final int REQUESTS = 4;

  /** The JVM itself, its heap of 64 MiB and what the engine needs: much less than a copy. */
  private static final long BESIDE_THE_CACHE = 256 * MIB;

  @Test
  void aCacheOfFiveTimesTheHeap() {
    Object[] shape = {"--layers", LAYERS, "--num-blocks", BLOCKS, "--block-len", BLOCK_BYTES};
    Random random = new Random(34);
    int[] sent = shuffled(random);
    int[] received = shuffled(random);
    try (PeerPair pair =
        PeerPair.start(
            PeerProcess.prefiller("prefiller").optimized().jvmArgument("-Xmx64m").options(shape),
            PeerProcess.decoder("decoder").optimized().jvmArgument("-Xmx64m").options(shape),
            shape)) {
      pair.decoder.zero();
      List<String> ids = new ArrayList<>();
      int each = BLOCKS / REQUESTS;
      for (int i = 0; i < REQUESTS; i++) {
        String id = PeerPair.fresh("huge");
        ids.add(id);
        pair.prefill(id, Blocks.part(i * each, each, sent));
        pair.pull(id, Blocks.part(i * each, each, received));
      }
      ids.forEach(pair::awaitReceived);
      ids.forEach(pair::awaitSent);
      assertThat(pair.decoder.checksum(received)).isEqualTo(pair.expected(sent));
      pair.verifyIdle();
      for (PeerProcess peer : List.of(pair.prefiller, pair.decoder)) {
        bounded(peer);
      }
      assertThat(pair.prefiller.quit()).isZero();
      assertThat(pair.decoder.quit()).isZero();
    }
  }

  private static void bounded(PeerProcess peer) {
    JsonNode state = peer.state();
    assertThat(state.path("registered_bytes").asLong()).isEqualTo(BYTES);
    assertThat(BYTES).isGreaterThan(4 * state.path("heap_max").asLong(Long.MAX_VALUE / 8));
    assertThat(state.path("direct_bytes").asLong(Long.MAX_VALUE))
        .as("direct buffers of %s", peer)
        .isLessThan(16 * MIB);
    long peak = peakBytes(peer);
    System.out.printf("%s: at most %d MiB resident, cache %d MiB%n", peer, peak / MIB, BYTES / MIB);
    assertThat(peak).as("resident memory of %s", peer).isLessThan(BYTES + BESIDE_THE_CACHE);
  }

  /** The most physical memory that it ever had. */
  private static long peakBytes(PeerProcess peer) {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/" + peer.pid() + "/status"))) {
        if (line.startsWith("VmHWM:")) {
          return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    throw new AssertionError("the system does not tell");
  }

  private static int[] shuffled(Random random) {
    List<Integer> ids = new ArrayList<>(IntStream.range(0, BLOCKS).boxed().toList());
    java.util.Collections.shuffle(ids, random);
    return ids.stream().mapToInt(Integer::intValue).toArray();
  }
}
