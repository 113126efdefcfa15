package dev.mooncake4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepResult;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Runs the examples of the README and of docs/embedding.md as they stand, on the real engine. */
class EmbeddingExampleTest {
  private static final int BLOCK_BYTES = 4096;
  private static final int BLOCKS = 8;
  private static final List<String> LAYERS = List.of("model.layers.0", "model.layers.1");

  @Test
  void theBlocksOfTheReadmesExampleArrive() throws Exception {
    try (Arena arena = Arena.ofShared();
        KvConnector prefiller = open(KvRole.PRODUCER);
        KvConnector decoder = open(KvRole.CONSUMER)) {
      MemorySegment source = cache(arena);
      MemorySegment target = cache(arena);
      source.fill((byte) 7);
      KvWorker sending = register(prefiller, source);
      KvWorker receiving = register(decoder, target);
      String bootstrap = String.valueOf(prefiller.bootstrapAddress());

      FutureTask<Boolean> prefill =
          new FutureTask<>(
              () -> {
                EmbeddingExample.prefill(
                    prefiller,
                    sending,
                    KvTransferParams.forPrefiller("x-1"),
                    BlockIds.of(5, 0, 3, 1));
                return true;
              });
      Thread.ofPlatform().name("prefill").daemon().start(prefill);
      boolean received =
          EmbeddingExample.decode(
              decoder,
              receiving,
              KvTransferParams.forDecoder("x-1", "prefiller-1", bootstrap),
              BlockIds.of(2, 4, 6, 7));

      assertThat(received).isTrue();
      assertThat(prefill.get(30, TimeUnit.SECONDS)).isTrue();
      long asked = System.nanoTime();
      boolean again =
          EmbeddingExample.decode(
              decoder,
              receiving,
              KvTransferParams.forDecoder("x-1", "prefiller-1", bootstrap),
              BlockIds.of(0, 1, 3, 5));
      assertThat(again).as("its ids are in use until the request is finished").isFalse();
      assertThat(Duration.ofNanos(System.nanoTime() - asked)).isLessThan(Duration.ofSeconds(10));
      assertArrived(target);
    }
  }

  @Test
  void theBlocksOfAPrefillInChunksArrive() throws Exception {
    try (Arena arena = Arena.ofShared();
        KvConnector prefiller = open(KvRole.PRODUCER);
        KvConnector decoder = open(KvRole.CONSUMER)) {
      MemorySegment source = cache(arena);
      MemorySegment target = cache(arena);
      source.fill((byte) 7);
      KvWorker sending = register(prefiller, source);
      KvWorker receiving = register(decoder, target);
      String bootstrap = String.valueOf(prefiller.bootstrapAddress());
      FutureTask<Boolean> decode =
          new FutureTask<>(
              () ->
                  EmbeddingExample.decode(
                      decoder,
                      receiving,
                      KvTransferParams.forDecoder("x-2", "prefiller-1", bootstrap),
                      BlockIds.of(2, 4, 6, 7)));
      Thread.ofPlatform().name("decode").daemon().start(decode);

      FinishDecision decision =
          EmbeddingExample.prefillInChunks(
              prefiller,
              sending,
              new KvRequest("p-2", 64, KvTransferParams.forPrefiller("x-2")),
              BlockIds.of(5, 0, 3, 1),
              16);

      assertThat(decision).isEqualTo(FinishDecision.KEEP);
      assertThat(decode.get(30, TimeUnit.SECONDS)).isTrue();
      assertThat(sending.await(Duration.ofSeconds(30)).sent())
          .containsExactly(new StepResult.Sent("p-2", "x-2", StepResult.SendEnd.SERVED));
      assertArrived(target);
    }
  }

  private static void assertArrived(MemorySegment target) {
    for (int layer = 0; layer < LAYERS.size(); layer++) {
      for (int block = 0; block < BLOCKS; block++) {
        MemorySegment bytes =
            target.asSlice((long) (layer * BLOCKS + block) * BLOCK_BYTES, BLOCK_BYTES);
        byte expected = (byte) (block == 2 || block == 4 || block >= 6 ? 7 : 0);
        assertThat(bytes.toArray(ValueLayout.JAVA_BYTE)).containsOnly(expected);
      }
    }
  }

  private static KvConnector open(KvRole role) {
    return KvConnector.open(
        ConnectorConfig.builder()
            .role(role)
            .sendWhilePrefill(role.isProducer())
            .engineId(role.isProducer() ? "prefiller-1" : "decoder-1")
            .host("127.0.0.1")
            .bootstrapPort(0)
            .protocol("tcp")
            .build());
  }

  private static MemorySegment cache(Arena arena) {
    return arena.allocate((long) LAYERS.size() * BLOCKS * BLOCK_BYTES, 4096);
  }

  private static KvWorker register(KvConnector connector, MemorySegment cache) {
    KvWorker worker = connector.openWorker();
    worker.registerKvCaches(
        KvCacheLayout.layersInOne(KvMemory.host(cache), LAYERS, BLOCK_BYTES, BLOCKS));
    return worker;
  }
}
