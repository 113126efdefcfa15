package dev.mooncake4j.examples.doctor;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.connector.spi.MemoryRange;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.engine.EngineInfo;
import dev.mooncake4j.engine.MooncakeNative;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The engine's library, its transport, and a transfer from one engine to another one here. */
final class EngineChecks {
  private static final int PIECES = 16;
  private static final long WRITE_NANOS = TimeUnit.SECONDS.toNanos(60);
  private static final String README = "see \"Troubleshooting\" in README.md";

  private final Report report;
  private final TransferEngineProvider engines;
  private final ConnectorConfig config;

  EngineChecks(Report report, TransferEngineProvider engines, ConnectorConfig config) {
    this.report = report;
    this.engines = engines;
    this.config = config;
  }

  /** Which library it is; returns whether there is one that can be used. */
  boolean library() {
    report.section("engine");
    try {
      EngineInfo info = MooncakeNative.open(config.engineLibrary());
      report.ok(
          "library="
              + info.file()
              + " version="
              + version(info.file())
              + " binding=\""
              + info.binding()
              + "\"");
      if (info.acknowledgesTcp()) {
        report.ok("tcp: a completed write is one that the peer has acknowledged");
      } else {
        report.note(
            "tcp: a completed write says only that it was sent: use engine 0.3.13 or later, and"
                + " leave MC_TCP_PROTO=1 out");
      }
      return true;
    } catch (KvConnectorException e) {
      report.problem(
          "no engine library can be used: " + e.getMessage(),
          "the message has it; ./demo.sh fetches one, MOONCAKE4J_ENGINE_LIBRARY names another");
      return false;
    }
  }

  /** The version of the Python wheel that a library is of, by its folder. */
  static String version(Path library) {
    Path wheel = library.toAbsolutePath().getParent();
    Path packages = wheel == null ? null : wheel.getParent();
    if (packages != null) {
      try (DirectoryStream<Path> found =
          Files.newDirectoryStream(packages, "mooncake_transfer_engine*.dist-info")) {
        for (Path info : found) {
          return String.valueOf(info.getFileName()).replace(".dist-info", "");
        }
      } catch (IOException e) {
        // Not to be read: the folder's own name may tell.
      }
      Path name = packages.getFileName();
      Matcher named =
          Pattern.compile("mooncake-transfer-engine\\S*-\\d.*")
              .matcher(name == null ? "" : name.toString());
      if (named.matches()) {
        return named.group();
      }
    }
    return "unknown";
  }

  /**
   * A transfer between two engines in this process, at the address that peers are told.
   *
   * @param rdma whether this machine has an RDMA port that can be used
   * @param mebibytes how much
   */
  void loopback(boolean rdma, int mebibytes) {
    report.section("loopback");
    EngineConfig settings =
        new EngineConfig(
            config.host(),
            config.protocol(),
            config.deviceNames(),
            config.engineLibrary(),
            NanoClock.SYSTEM);
    try (TransferEngine source = engines.open(settings);
        TransferEngine target = engines.open(settings)) {
      transport(source.transport(), rdma);
      transfer(source, target, mebibytes);
    } catch (KvConnectorException e) {
      report.problem("the engine does not start: " + e.getMessage(), README);
    }
  }

  private void transport(String transport, boolean rdma) {
    String line = "transport=" + transport + " asked_for=" + config.protocol();
    if (transport.equals(config.protocol())) {
      report.ok(line);
    } else if (rdma) {
      report.problem(
          line + " though an rdma port is active",
          "look at device_name, at the permissions of /dev/infiniband, and for libibverbs");
    } else {
      report.note(line + ": set mooncake_protocol to " + transport + " to say so");
    }
  }

  private void transfer(TransferEngine source, TransferEngine target, int mebibytes) {
    long size = (long) mebibytes << 20;
    try (Arena arena = Arena.ofShared()) {
      MemorySegment from = arena.allocate(size, 4096);
      MemorySegment to = arena.allocate(size, 4096);
      for (long at = 0; at < size; at += Long.BYTES) {
        from.set(ValueLayout.JAVA_LONG, at, at * 0x9E3779B97F4A7C15L + 1);
      }
      List<MemoryRange> sent = List.of(new MemoryRange(from.address(), size, "cpu:0"));
      List<MemoryRange> received = List.of(new MemoryRange(to.address(), size, "cpu:0"));
      source.register(sent);
      target.register(received);
      String peer = HostAddresses.join(target.host(), target.port());
      WriteResult result = WriteResult.completed();
      long took = 0;
      // The first write connects; the second one is timed.
      for (int i = 0; i < 2 && result.isCompleted(); i++) {
        to.fill((byte) 0);
        long began = System.nanoTime();
        result = write(source, peer, from, to, size);
        took = System.nanoTime() - began;
      }
      told(result, peer, size, took, result.isCompleted() ? from.mismatch(to) : 0);
      result.quiet().toCompletableFuture().get(60, TimeUnit.SECONDS);
      source.unregister(sent);
      target.unregister(received);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | TimeoutException e) {
      // The engine may go on to write to memory that is about to be freed.
      report.problem("the transfer does not end", README);
      Runtime.getRuntime().halt(1);
    }
  }

  private static WriteResult write(
      TransferEngine source, String peer, MemorySegment from, MemorySegment to, long size) {
    try (DescriptorList pieces = new DescriptorList(PIECES)) {
      long length = size / PIECES;
      for (int i = 0; i < PIECES; i++) {
        pieces.fence();
        pieces.add(from.address() + i * length, to.address() + i * length, length);
      }
      return source.write(peer, pieces, WRITE_NANOS);
    }
  }

  private void told(WriteResult result, String peer, long size, long nanos, long mismatch) {
    if (!result.isCompleted()) {
      report.problem(
          "bytes=" + size + " to peer=" + peer + " failed: " + result.message(),
          "if the address is not one that this host reaches itself at, set VLLM_HOST_IP; else "
              + README);
    } else if (mismatch >= 0) {
      report.problem(
          "bytes=" + size + " were written, and differ from byte=" + mismatch + " on",
          "file an issue with this output");
    } else {
      report.ok(
          String.format(
              Locale.ROOT,
              "bytes=%d in ms=%.1f: %.2f GB/s, every byte compared",
              size,
              nanos / 1e6,
              size / (double) Math.max(1, nanos)));
    }
  }
}
