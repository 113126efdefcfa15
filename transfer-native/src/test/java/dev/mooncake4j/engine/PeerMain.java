package dev.mooncake4j.engine;

import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.TransferEngine;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.zip.CRC32C;

/**
 * A peer in a JVM of its own: an engine with some memory registered. Tells its port and its
 * memory's address, and then answers {@code sum} with the checksum of the memory, until it is told
 * {@code exit}.
 */
final class PeerMain {
  private PeerMain() {}

  /** With the number of bytes to register. */
  public static void main(String[] args) throws IOException {
    long bytes = Long.parseLong(args[0]);
    MemorySegment memory = Arena.global().allocate(bytes, 4096);
    TransferEngine engine = Engines.open();
    engine.register(List.of(new MemoryRange(memory.address(), bytes, "cpu:0")));
    System.out.println("ready " + engine.port() + " " + memory.address());
    try (BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      while (true) {
        String command = commands.readLine();
        if (command == null || command.equals("exit")) {
          // The engine stays open: the JVM must end all the same.
          System.exit(0);
        }
        System.out.println(command + " " + checksum(memory));
      }
    }
  }

  /** Checksum of all of it, in pieces that fit an array. */
  static long checksum(MemorySegment memory) {
    CRC32C sum = new CRC32C();
    long piece = 1 << 20;
    for (long at = 0; at < memory.byteSize(); at += piece) {
      sum.update(memory.asSlice(at, Math.min(piece, memory.byteSize() - at)).asByteBuffer());
    }
    return sum.getValue();
  }
}
