package dev.mooncake4j.engine;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.TransferEngineException;
import dev.mooncake4j.connector.spi.EngineConfig;
import dev.mooncake4j.engine.ffi.TransferEngineC;
import dev.mooncake4j.engine.load.EngineLibrary;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts an engine with the transport that was asked for.
 *
 * <p>The engine's own discovery is left off: it takes RDMA where there is a device, whatever was
 * asked for. Here {@code rdma} without a device becomes {@code tcp}, with one warning; every other
 * transport is installed or refused.
 *
 * @param handle the native engine
 * @param port the port that the engine chose
 * @param transport the transport in use
 */
record EngineStart(MemorySegment handle, int port, String transport) {
  private static final Logger LOG = LoggerFactory.getLogger(EngineStart.class);

  static final String TCP = "tcp";
  static final String RDMA = "rdma";

  private static final Path RDMA_DEVICES = Path.of("/sys/class/infiniband");

  /** An engine that starts may lose its port to another process between finding and taking it. */
  private static final int ATTEMPTS = 3;

  /**
   * Starts an engine.
   *
   * @throws TransferEngineException if it does not start; nothing of it is left
   */
  static EngineStart start(EngineLibrary library, EngineConfig config) {
    boolean ipv6 = HostAddresses.bare(config.host()).indexOf(':') >= 0;
    if (ipv6 && !library.ipv6()) {
      throw new TransferEngineException(
          "createTransferEngine",
          0,
          "host="
              + config.host()
              + " is an IPv6 address, but the engine was opened for IPv4: set MC_USE_IPV6=1 in the"
              + " environment",
          null);
    }
    String wanted = library.environment("MC_FORCE_TCP") == null ? config.protocol() : TCP;
    if (wanted.equals(RDMA)) {
      List<String> devices = rdmaDevices();
      if (devices.isEmpty()) {
        LOG.warn("protocol=rdma: this host has no RDMA device in {}; using tcp", RDMA_DEVICES);
        wanted = TCP;
      } else if (!config.deviceNames().isEmpty()
          && config.deviceNames().stream().noneMatch(devices::contains)) {
        LOG.warn(
            "protocol=rdma: none of device_name={} is among this host's devices={}; using tcp",
            config.deviceNames(),
            devices);
        wanted = TCP;
      } else {
        try {
          return start(library, config, RDMA);
        } catch (TransferEngineException e) {
          LOG.warn("protocol=rdma does not start with devices={}; using tcp", devices, e);
          wanted = TCP;
        }
      }
    }
    return start(library, config, wanted);
  }

  private static EngineStart start(EngineLibrary library, EngineConfig config, String transport) {
    TransferEngineException first = null;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        return once(library, config, transport);
      } catch (TransferEngineException e) {
        if (first == null) {
          first = e;
        }
        if (!transport.equals(TCP)) {
          throw first;
        }
      }
    }
    throw first;
  }

  private static EngineStart once(EngineLibrary library, EngineConfig config, String transport) {
    MemorySegment handle = library.create(HostAddresses.bare(config.host()), config.deviceNames());
    if (handle.address() == 0) {
      throw new TransferEngineException(
          "createTransferEngine", 0, "host=" + config.host() + ": " + library.explained(), null);
    }
    boolean started = false;
    try (Arena arena = Arena.ofConfined()) {
      if (!transport.equals(TCP)) {
        int code = TransferEngineC.discoverTopology(handle);
        if (code != 0) {
          LOG.debug("operation=discoverTopology code={}: {}", code, library.explained());
        }
      }
      MemorySegment installed =
          TransferEngineC.installTransport(
              handle, arena.allocateFrom(transport), MemorySegment.NULL);
      if (installed.address() == 0) {
        throw new TransferEngineException(
            "installTransport",
            0,
            "protocol="
                + transport
                + " cannot be used with library="
                + library.file()
                + ": "
                + library.explained(),
            null);
      }
      EngineStart result = new EngineStart(handle, portOf(handle), transport);
      started = true;
      return result;
    } finally {
      if (!started) {
        library.destroy(handle);
      }
    }
  }

  private static int portOf(MemorySegment handle) {
    int port = EngineLibrary.port(handle);
    if (port < 0) {
      throw new TransferEngineException(
          "getLocalIpAndPort", 0, "the engine does not tell its port", null);
    }
    return port;
  }

  private static List<String> rdmaDevices() {
    List<String> names = new ArrayList<>();
    try (DirectoryStream<Path> devices = Files.newDirectoryStream(RDMA_DEVICES)) {
      devices.forEach(device -> names.add(String.valueOf(device.getFileName())));
    } catch (IOException e) {
      // The folder is missing where the kernel has no RDMA.
      return List.of();
    }
    return names;
  }
}
