package dev.mooncake4j.bootstrap;

import dev.mooncake4j.connector.SharedSecret;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * How a bootstrap server listens, and how much it bears from its clients.
 *
 * @param host the address to bind, {@code 0.0.0.0} for all; kept without the brackets of an IPv6
 *     literal
 * @param port the port to bind, 0 for any free one
 * @param requestTimeout how long a client may take to send one request, or to take its answer; 1 ms
 *     to an hour
 * @param idleTimeout how long a connection may stay open without a request; 1 ms to a day. Longer
 *     than clients keep their connections (30 s for the JDK's), lest a request meet a closing one
 * @param maxConnections connections open at a time, 1 to 65536; further ones get 503
 * @param probeTimeout how long one connect may take that finds out whether a former worker is gone;
 *     1 ms to a minute. All of them together get six times that
 * @param secret what each request but those for its health must bring, or {@code null} to take all,
 *     as vLLM's server does
 */
public record BootstrapServerConfig(
    String host,
    int port,
    Duration requestTimeout,
    Duration idleTimeout,
    int maxConnections,
    Duration probeTimeout,
    @Nullable SharedSecret secret) {

  /**
   * Checks the ranges.
   *
   * @throws IllegalArgumentException naming every value that is outside its range
   */
  public BootstrapServerConfig {
    if (host.startsWith("[") && host.endsWith("]")) {
      host = host.substring(1, host.length() - 1);
    }
    List<String> problems = new ArrayList<>();
    if (host.isBlank()) {
      problems.add("host is empty: give the address to bind, 0.0.0.0 for all");
    }
    if (port < 0 || port > 65535) {
      problems.add("port=" + port + ": give 0 (any free one) to 65535");
    }
    check("request_timeout", requestTimeout, Duration.ofHours(1), problems);
    check("idle_timeout", idleTimeout, Duration.ofDays(1), problems);
    if (maxConnections < 1 || maxConnections > 65536) {
      problems.add("max_connections=" + maxConnections + ": give 1 to 65536");
    }
    check("probe_timeout", probeTimeout, Duration.ofMinutes(1), problems);
    if (!problems.isEmpty()) {
      throw new IllegalArgumentException(String.join("; ", problems));
    }
  }

  /** All addresses, the given port (0 for any free one), and limits that suit a cluster. */
  public static BootstrapServerConfig onPort(int port) {
    return new BootstrapServerConfig(
        "0.0.0.0",
        port,
        Duration.ofSeconds(10),
        Duration.ofSeconds(75),
        1024,
        Duration.ofMillis(500),
        null);
  }

  /** This with another {@link #host()}. */
  public BootstrapServerConfig withHost(String address) {
    return new BootstrapServerConfig(
        address, port, requestTimeout, idleTimeout, maxConnections, probeTimeout, secret);
  }

  /** This with another {@link #requestTimeout()}. */
  public BootstrapServerConfig withRequestTimeout(Duration timeout) {
    return new BootstrapServerConfig(
        host, port, timeout, idleTimeout, maxConnections, probeTimeout, secret);
  }

  /** This with another {@link #idleTimeout()}. */
  public BootstrapServerConfig withIdleTimeout(Duration timeout) {
    return new BootstrapServerConfig(
        host, port, requestTimeout, timeout, maxConnections, probeTimeout, secret);
  }

  /** This with another {@link #maxConnections()}. */
  public BootstrapServerConfig withMaxConnections(int connections) {
    return new BootstrapServerConfig(
        host, port, requestTimeout, idleTimeout, connections, probeTimeout, secret);
  }

  /** This with another {@link #probeTimeout()}. */
  public BootstrapServerConfig withProbeTimeout(Duration timeout) {
    return new BootstrapServerConfig(
        host, port, requestTimeout, idleTimeout, maxConnections, timeout, secret);
  }

  /** This with another {@link #secret()}. */
  public BootstrapServerConfig withSecret(@Nullable SharedSecret sharedSecret) {
    return new BootstrapServerConfig(
        host, port, requestTimeout, idleTimeout, maxConnections, probeTimeout, sharedSecret);
  }

  static void check(String name, Duration value, Duration most, List<String> problems) {
    if (value.compareTo(Duration.ofMillis(1)) < 0 || value.compareTo(most) > 0) {
      problems.add(name + "=" + value + ": give " + Duration.ofMillis(1) + " to " + most);
    }
  }
}
