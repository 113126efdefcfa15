package dev.mooncake4j.it.stress;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Where the peers live: all on the loopback, or each in a network namespace of its own, behind one
 * bridge. There a link between two can be cut so that packets vanish: each side's neighbour entry
 * for the other gets a hardware address that nobody has.
 *
 * <p>The namespaces are made inside those of this process, which the script has it started in, and
 * go with it.
 */
final class Network {
  private static final String NOBODY = "02:00:00:00:00:fe";
  private static final String PREFIX = "10.99.0.";

  private final boolean namespaces;

  private Network(boolean namespaces) {
    this.namespaces = namespaces;
  }

  /** Everybody on the loopback; no link can be cut. */
  static Network loopback() {
    return new Network(false);
  }

  /** A namespace for each of so many peers. */
  static Network namespaces(int peers) {
    run("mount", "-t", "tmpfs", "tmpfs", "/run");
    run("ip", "link", "set", "lo", "up");
    run("ip", "link", "add", "br0", "type", "bridge");
    run("ip", "link", "set", "br0", "up");
    for (int i = 0; i < peers; i++) {
      String name = name(i);
      run("ip", "netns", "add", name);
      run("ip", "link", "add", "v" + i, "type", "veth", "peer", "name", "eth0", "netns", name);
      run("ip", "link", "set", "v" + i, "master", "br0", "up");
      run("ip", "-n", name, "link", "set", "lo", "up");
      run("ip", "-n", name, "addr", "add", address(i) + "/24", "dev", "eth0");
      run("ip", "-n", name, "link", "set", "eth0", "up");
    }
    return new Network(true);
  }

  boolean canCut() {
    return namespaces;
  }

  /** The address of a peer. */
  String host(int peer) {
    return namespaces ? address(peer) : "127.0.0.1";
  }

  /** What a peer's command line begins with. */
  List<String> runIn(int peer) {
    return namespaces ? List.of("ip", "netns", "exec", name(peer)) : List.of();
  }

  /** From now on nothing passes between two peers, and nobody is told. */
  void cut(int a, int b) {
    oneWay("replace", a, b);
    oneWay("replace", b, a);
  }

  void heal(int a, int b) {
    oneWay("del", a, b);
    oneWay("del", b, a);
  }

  private static void oneWay(String verb, int from, int to) {
    List<String> command =
        new ArrayList<>(List.of("ip", "-n", name(from), "neigh", verb, address(to)));
    if (verb.equals("replace")) {
      command.addAll(List.of("lladdr", NOBODY, "nud", "permanent"));
    }
    command.addAll(List.of("dev", "eth0"));
    run(command.toArray(String[]::new));
  }

  private static String name(int peer) {
    return "peer" + peer;
  }

  private static String address(int peer) {
    return PREFIX + (peer + 1);
  }

  private static void run(String... command) {
    try {
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      process.getOutputStream().close();
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      int code = process.waitFor();
      if (code != 0) {
        throw new IllegalStateException(
            String.join(" ", command) + " exit_code=" + code + ": " + output.strip());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    }
  }
}
