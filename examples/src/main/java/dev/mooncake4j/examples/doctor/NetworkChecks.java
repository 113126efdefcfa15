package dev.mooncake4j.examples.doctor;

import dev.mooncake4j.bootstrap.BootstrapAddress;
import dev.mooncake4j.bootstrap.BootstrapClient;
import dev.mooncake4j.bootstrap.BootstrapClientConfig;
import dev.mooncake4j.bootstrap.BootstrapException;
import dev.mooncake4j.bootstrap.QueryAnswer;
import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.SharedSecret;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** The address that peers are told, ports, bootstrap servers and side channels. */
final class NetworkChecks {
  /** How long each answer is waited for. */
  static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final int UNAUTHORIZED = 401;
  private static final int GREETING = 64;
  private static final int MECHANISM_AT = 12;
  private static final int MECHANISM = 20;
  private static final String TCP = "tcp://";

  private final Report report;
  private final @Nullable SharedSecret secret;
  private final Duration patience;

  NetworkChecks(Report report, @Nullable SharedSecret secret, Duration patience) {
    this.report = report;
    this.secret = secret;
    this.patience = patience;
  }

  /** The address that this host is advertised at. */
  void host(String host) {
    report.section("host");
    String next = "set VLLM_HOST_IP, or ConnectorConfig.host, to an address of this host";
    try {
      InetAddress address = InetAddress.getByName(HostAddresses.bare(host));
      if (address.isLoopbackAddress()) {
        report.note("advertised=" + host + ": peers on this host alone reach it; else " + next);
      } else if (NetworkInterface.getByInetAddress(address) == null) {
        report.problem(
            "advertised=" + host + " is no address of this host",
            next + "; with address translation in between, it has to be the outer one");
      } else {
        report.ok("advertised=" + host);
      }
    } catch (IOException e) {
      report.problem("advertised=" + host + " is not known: " + e.getMessage(), next);
    }
  }

  /**
   * The port of a prefiller's bootstrap server here; returns whether such a server has it already.
   */
  boolean bootstrapPort(int port) {
    report.section("ports");
    if (port == 0) {
      report.ok("bootstrap_port=0: any free one");
      return false;
    }
    try (ServerSocket socket = new ServerSocket()) {
      socket.setReuseAddress(true);
      socket.bind(new InetSocketAddress(port));
      report.ok("bootstrap_port=" + port + " is free");
      return false;
    } catch (IOException e) {
      if (answers(BootstrapAddress.of("127.0.0.1", port))) {
        report.ok("bootstrap_port=" + port + " is a bootstrap server's that runs");
        return true;
      }
      String reason = String.valueOf(e.getMessage());
      boolean taken = reason.startsWith("Address already in use");
      report.problem(
          "bootstrap_port=" + port + (taken ? " is taken" : " cannot be had: " + reason),
          "a prefiller here needs another: set VLLM_MOONCAKE_BOOTSTRAP_PORT or its --bootstrap-port,"
              + " and the same in what routes to it"
              + (taken ? "; ss -ltnp shows who has this one" : ""));
      return false;
    }
  }

  private boolean answers(URI server) {
    try (BootstrapClient client = client()) {
      client.look(server, patience).toCompletableFuture().get(10, TimeUnit.SECONDS);
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    } catch (ExecutionException e) {
      // One that asks for another secret is one too.
      return e.getCause() instanceof BootstrapException refused && refused.status() == UNAUTHORIZED;
    } catch (TimeoutException e) {
      return false;
    }
  }

  private BootstrapClient client() {
    return new BootstrapClient(
        BootstrapClientConfig.withTimeout(patience)
            .withAllowedHosts(any -> true)
            .withSecret(secret));
  }

  /** A bootstrap server and the side channels of all who have registered there. */
  void bootstrap(String url) {
    report.section("bootstrap " + url);
    QueryAnswer answer;
    try (BootstrapClient client = client()) {
      answer =
          client
              .look(BootstrapAddress.parse(url), patience)
              .toCompletableFuture()
              .get(10, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return;
    } catch (ExecutionException e) {
      unreachable(e.getCause() == null ? e : e.getCause());
      return;
    } catch (TimeoutException | BootstrapException e) {
      unreachable(e);
      return;
    }
    if (answer.engines().isEmpty()) {
      report.problem(
          "it answers, and no engine has registered",
          "look whether the prefiller has called registerKvCaches, and registers at this server");
    }
    answer
        .engines()
        .forEach(
            (dpRank, engine) -> {
              report.ok("engine_id=" + engine.engineId() + " dp_rank=" + dpRank);
              engine
                  .workers()
                  .forEach(
                      (tp, stages) ->
                          stages.forEach(
                              (pp, address) ->
                                  sideChannel("tp_rank=" + tp + " pp_rank=" + pp, address)));
            });
  }

  private void unreachable(Throwable cause) {
    if (cause instanceof BootstrapException wrong
        && wrong.reason() == BootstrapException.Reason.ADDRESS) {
      report.problem(
          String.valueOf(wrong.getMessage()),
          "nobody was asked: give --bootstrap http://HOST:PORT, with nothing behind the port");
      return;
    }
    String next =
        cause instanceof BootstrapException refused && refused.status() == UNAUTHORIZED
            ? "it asks for the shared secret: give its file with --secret-file"
            : "look whether the prefiller runs and this is its bootstrap port, and for firewalls in"
                + " between; curl URL/query answers JSON";
    report.problem("GET /query failed: " + cause.getMessage(), next);
  }

  /** Whether a prefiller rank's side channel is reached and speaks ZMTP. */
  void sideChannel(String rank, String address) {
    String where = rank + " side_channel=" + address;
    if (!address.startsWith(TCP)) {
      report.problem(where + " is not tcp://host:port", "look at what has registered there");
      return;
    }
    String next =
        "look for a firewall between this host and that port, which is any free one; if the address"
            + " is not that host's, set VLLM_HOST_IP there";
    try (Socket socket = new Socket()) {
      String rest = address.substring(TCP.length());
      socket.connect(
          new InetSocketAddress(HostAddresses.hostOf(rest), HostAddresses.portOf(rest)),
          (int) patience.toMillis());
      socket.setSoTimeout((int) patience.toMillis());
      socket.getOutputStream().write(greeting());
      socket.getOutputStream().flush();
      byte[] theirs = socket.getInputStream().readNBytes(GREETING);
      if (theirs.length < GREETING || theirs[0] != (byte) 0xff || theirs[9] != 0x7f) {
        report.problem(
            where + " answers, but not as a side channel, bytes=" + theirs.length,
            "something else listens there now: look whether the prefiller still runs");
        return;
      }
      greeted(where, mechanism(theirs));
    } catch (SocketTimeoutException e) {
      boolean connected = !String.valueOf(e.getMessage()).startsWith("Connect");
      report.problem(
          where + (connected ? " takes a connection and says nothing" : " does not answer"),
          connected
              ? "that prefiller hangs or is stopped, or something else listens there: look at its"
                  + " log, or restart it"
              : next);
    } catch (IOException | IllegalArgumentException e) {
      report.problem(where + " is not reached: " + e.getMessage(), next);
    }
  }

  private void greeted(String where, String mechanism) {
    String expected = secret == null ? "NULL" : "PLAIN";
    if (mechanism.equals(expected)) {
      report.ok(where + " mechanism=" + mechanism);
    } else if (secret == null) {
      report.problem(
          where + " mechanism=" + mechanism,
          "it asks for the shared secret: give its file with --secret-file, and set it on decoders");
    } else {
      report.problem(
          where + " mechanism=" + mechanism,
          "a shared secret is set here and not there: set the same on both, or on neither");
    }
  }

  /** A greeting of ZMTP 3.1 with the mechanism that this side would use. */
  private byte[] greeting() {
    ByteBuffer greeting = ByteBuffer.allocate(GREETING);
    greeting.put((byte) 0xff).putLong(1).put((byte) 0x7f).put((byte) 3).put((byte) 1);
    greeting.put((secret == null ? "NULL" : "PLAIN").getBytes(StandardCharsets.US_ASCII));
    return greeting.array();
  }

  private static String mechanism(byte[] greeting) {
    return new String(greeting, MECHANISM_AT, MECHANISM, StandardCharsets.ISO_8859_1)
        .replace("\0", "");
  }

  /** What a set of settings says of secrets, without them. */
  static String shown(Map<String, ?> settings) {
    StringBuilder text = new StringBuilder();
    settings.forEach((name, value) -> text.append(name).append('=').append(value).append(' '));
    return text.toString().strip();
  }
}
