package dev.mooncake4j.it;

import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.WorkerStats;
import java.io.IOException;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What a peer holds at a moment: the worker's figures, and the process's. */
public final class PeerState {
  private static final Path PROC = Path.of("/proc/self");

  private PeerState() {}

  /** Names and values in turn. */
  static List<@Nullable Object> fields(KvWorker worker, Collection<String> outstanding) {
    WorkerStats stats = worker.stats();
    List<@Nullable Object> fields = new ArrayList<>();
    add(fields, "outstanding", outstanding);
    add(fields, "healthy", worker.isHealthy());
    add(fields, "pulls", stats.pulls());
    add(fields, "sends", stats.sends());
    add(fields, "waiting_pulls", stats.waitingPulls());
    add(fields, "leases", stats.leases());
    add(fields, "quarantined_blocks", stats.quarantinedBlocks());
    add(fields, "queued_transfers", stats.queuedTransfers());
    add(fields, "live_batches", stats.liveBatches());
    add(fields, "registered_bytes", stats.registeredBytes());
    add(fields, "heap_max", Runtime.getRuntime().maxMemory());
    add(fields, "direct_bytes", directBytes());
    add(fields, "threads", threads());
    add(fields, "fds", fileDescriptors());
    add(fields, "thread_names", threadNames());
    return fields;
  }

  private static void add(List<@Nullable Object> fields, String name, Object value) {
    fields.add(name);
    fields.add(value);
  }

  /** Bytes in direct buffers; the KV memory is not among them. */
  private static long directBytes() {
    long bytes = 0;
    for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
      if (pool.getName().equals("direct")) {
        bytes += pool.getMemoryUsed();
      }
    }
    return bytes;
  }

  /** Java threads by name, the connector's and ours. */
  private static List<String> threadNames() {
    return Thread.getAllStackTraces().keySet().stream().map(Thread::getName).sorted().toList();
  }

  /** Threads of this process, native ones too; -1 where that cannot be told. */
  public static long threads() {
    return entries("task");
  }

  /** Open file descriptors of this process; -1 where that cannot be told. */
  public static long fileDescriptors() {
    return entries("fd");
  }

  /** Entries of a folder of this process; -1 where there is no such folder. */
  private static long entries(String folder) {
    try (Stream<Path> list = Files.list(PROC.resolve(folder))) {
      return list.count();
    } catch (IOException e) {
      return -1;
    }
  }
}
