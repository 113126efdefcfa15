package dev.mooncake4j.smoke;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvMemory;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepResult;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;

/** A prefiller and a decoder in one JVM of named modules: one block crosses. */
public final class Smoke {
  private static final int BLOCK = 4096;

  public static void main(String[] args) throws InterruptedException {
    try (Arena arena = Arena.ofShared();
        KvConnector prefiller = open("kv_producer");
        KvConnector decoder = open("kv_consumer")) {
      MemorySegment from = arena.allocate(4 * BLOCK, BLOCK);
      MemorySegment to = arena.allocate(4 * BLOCK, BLOCK);
      from.fill((byte) 7);
      KvWorker sender = worker(prefiller, from);
      KvWorker receiver = worker(decoder, to);

      var sent = new KvRequest("p", 16, KvTransferParams.forPrefiller("t"));
      prefiller.scheduler().onRequestArrived(sent);
      prefiller.scheduler().onBlocksAllocated(sent, BlockIds.of(1), 0);
      prefiller.scheduler().onRequestFinished(sent, BlockIds.of(1), FinishReason.LENGTH);
      sender.startStep(prefiller.scheduler().buildStep());

      var fetched =
          new KvRequest(
              "d",
              16,
              KvTransferParams.forDecoder(
                  "t",
                  prefiller.config().engineId(),
                  String.valueOf(prefiller.bootstrapAddress())));
      decoder.scheduler().onRequestArrived(fetched);
      int tokens = decoder.scheduler().matchedTokens(fetched, 0).tokens();
      decoder.scheduler().onBlocksAllocated(fetched, BlockIds.of(2), tokens);
      receiver.startStep(decoder.scheduler().buildStep());

      StepResult result = receiver.await(Duration.ofSeconds(30));
      boolean there =
          to.asSlice(2 * BLOCK, BLOCK).mismatch(from.asSlice(BLOCK, BLOCK)) < 0;
      System.out.println(
          "module="
              + Smoke.class.getModule().getName()
              + " connector="
              + prefiller.getClass().getModule().getName()
              + " received="
              + result.received()
              + " failed="
              + result.failed()
              + " there="
              + there);
    }
  }

  private static KvConnector open(String role) {
    String json =
        """
        {"kv_connector": "MooncakeConnector", "kv_role": "%s",
         "kv_connector_extra_config": {"mooncake_protocol": "tcp"}}
        """
            .formatted(role);
    return KvConnector.open(
        ConnectorConfig.builder()
            .kvTransferConfig(json)
            .host("127.0.0.1")
            .bootstrapPort(0)
            .build());
  }

  private static KvWorker worker(KvConnector connector, MemorySegment memory) {
    KvWorker worker = connector.openWorker();
    worker.registerKvCaches(
        KvCacheLayout.layersInOne(KvMemory.host(memory), List.of("layer"), BLOCK, 4));
    return worker;
  }
}
