package dev.mooncake4j.engine;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Opens two engines in a JVM of its own, writes from one to the other, and tells. */
final class EngineProbe {
  private EngineProbe() {}

  /** With the host, the protocol, and a library or nothing. */
  public static void main(String[] args) {
    Path library = args.length > 2 ? Path.of(args[2]) : null;
    try (Arena arena = Arena.ofShared();
        TransferEngine sender = open(args[0], args[1], library);
        TransferEngine receiver = open(args[0], args[1], library);
        DescriptorList list = new DescriptorList()) {
      MemorySegment source = arena.allocate(1024).fill((byte) 9);
      MemorySegment target = arena.allocate(1024);
      sender.register(List.of(new MemoryRange(source.address(), 1024, "cpu:0")));
      receiver.register(List.of(new MemoryRange(target.address(), 1024, "cpu:0")));
      list.add(source.address(), target.address(), 1024);
      String peer = HostAddresses.join(receiver.host(), receiver.port());
      WriteResult result = sender.write(peer, list, Duration.ofSeconds(20).toNanos());
      System.out.println(
          "transport="
              + sender.transport()
              + " proves="
              + sender.completionProvesArrival()
              + " status="
              + result.status()
              + " arrived="
              + (target.mismatch(source) < 0)
              + " "
              + result.message());
    }
  }

  private static TransferEngine open(String host, String protocol, @Nullable Path library) {
    return new NativeTransferEngineProvider()
        .open(new EngineConfig(host, protocol, List.of(), library, NanoClock.SYSTEM));
  }
}
