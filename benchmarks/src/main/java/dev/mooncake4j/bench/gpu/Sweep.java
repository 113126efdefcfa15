package dev.mooncake4j.bench.gpu;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.engine.NativeTransferEngineProvider;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;

/**
 * The connector's engine without the connector, under one setting after the other: how many threads
 * submit, and how many descriptors go into a batch. One thread at a time.
 */
final class Sweep {
  private static final long PATIENCE = TimeUnit.SECONDS.toNanos(30);

  private final String transport;
  private final String location;
  private final long memory;
  private final long bytes;
  private @Nullable TransferEngine receiver;

  Sweep(String transport, String location, long memory, long bytes) {
    this.transport = transport;
    this.location = location;
    this.memory = memory;
    this.bytes = bytes;
  }

  private TransferEngine open() {
    TransferEngine engine =
        new NativeTransferEngineProvider()
            .open(new EngineConfig("127.0.0.1", transport, List.of(), null, NanoClock.SYSTEM));
    engine.register(List.of(new MemoryRange(memory, bytes, location)));
    return engine;
  }

  /** {@code host:port} of an engine that is written to, kept until the process ends. */
  String address() {
    TransferEngine engine = receiver;
    if (engine == null) {
      engine = open();
      receiver = engine;
    }
    return HostAddresses.join(engine.host(), engine.port());
  }

  /** Writes the list some times under the settings of a command; the nanoseconds of each. */
  Map<String, ?> write(JsonNode c, DescriptorList list) {
    System.setProperty("mooncake4j.engine.lanes", c.get("lanes").asString());
    System.setProperty("mooncake4j.engine.window", c.get("window").asString());
    List<Long> nanos = new ArrayList<>();
    try (TransferEngine engine = open()) {
      for (int round = -1; round < c.get("rounds").asInt(); round++) {
        long start = System.nanoTime();
        WriteResult result = engine.write(c.get("peer").asString(), list, PATIENCE);
        long took = System.nanoTime() - start;
        if (!result.isCompleted()) {
          throw new IllegalStateException(result.message());
        }
        if (round >= 0) {
          nanos.add(took);
        }
      }
    } finally {
      System.clearProperty("mooncake4j.engine.lanes");
      System.clearProperty("mooncake4j.engine.window");
    }
    return Map.of("nanos", nanos, "bytes", list.bytes(), "descriptors", list.size());
  }
}
