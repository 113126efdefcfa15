package dev.mooncake4j.connector;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.Enumeration;
import java.util.List;

/** Addresses as they are advertised: parsed, written and found out in this one place. */
public final class HostAddresses {
  private HostAddresses() {}

  /** {@code host:port}, an IPv6 host in brackets. */
  public static String join(String host, int port) {
    String bare = bare(host);
    return bare.indexOf(':') >= 0 ? "[" + bare + "]:" + port : bare + ":" + port;
  }

  /** The host without the brackets of an IPv6 literal. */
  public static String bare(String host) {
    return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
  }

  /**
   * The host of {@code host:port}, without brackets.
   *
   * @throws IllegalArgumentException if the text has not that form
   */
  public static String hostOf(String hostAndPort) {
    return bare(hostAndPort.substring(0, colon(hostAndPort)));
  }

  /**
   * The port of {@code host:port}, 1 to 65535.
   *
   * @throws IllegalArgumentException if the text has not that form
   */
  public static int portOf(String hostAndPort) {
    String text = hostAndPort.substring(colon(hostAndPort) + 1);
    int port = text.matches("[0-9]{1,5}") ? Integer.parseInt(text) : 0;
    if (port >= 1 && port <= 65535) {
      return port;
    }
    throw new IllegalArgumentException(
        "address=" + hostAndPort + " has no port: give host:port, with a port of 1 to 65535");
  }

  private static int colon(String hostAndPort) {
    int colon = hostAndPort.lastIndexOf(':');
    String host = colon < 0 ? "" : hostAndPort.substring(0, colon);
    boolean bracketed = host.startsWith("[") && host.endsWith("]");
    if (host.isEmpty() || (!bracketed && host.indexOf(':') >= 0) || host.equals("[]")) {
      throw new IllegalArgumentException(
          "address=" + hostAndPort + " is not host:port: put an IPv6 host in brackets");
    }
    return colon;
  }

  /** Whether the host stands for every address of a machine. */
  public static boolean isWildcard(String host) {
    String bare = bare(host);
    // Zeros alone, in any spelling: 0.0.0.0, ::, 0:0:0:0:0:0:0:0, 0.
    return bare.isEmpty() || bare.equals("*") || bare.matches("[0:.]+");
  }

  static void checkAdvertised(String name, String host, List<String> problems) {
    if (isWildcard(host)) {
      problems.add(
          name + "=" + host + " is a wildcard: give the address that peers reach this host at");
    } else if (!host.equals(host.strip()) || host.contains("/")) {
      problems.add(name + "=" + host + " is not a host: give a name or an address alone");
    }
  }

  static void checkHostAndPort(String name, String hostAndPort, List<String> problems) {
    try {
      checkAdvertised(name, hostOf(hostAndPort), problems);
      portOf(hostAndPort);
    } catch (IllegalArgumentException e) {
      problems.add(name + ": " + e.getMessage());
    }
  }

  /** An address of this host that is not loopback, IPv4 first; 127.0.0.1 where there is none. */
  static String ofThisHost() {
    InetAddress best = null;
    try {
      Enumeration<NetworkInterface> interfaces = NetworkInterface.getNetworkInterfaces();
      while (interfaces != null && interfaces.hasMoreElements()) {
        NetworkInterface candidate = interfaces.nextElement();
        if (!candidate.isUp() || candidate.isLoopback()) {
          continue;
        }
        for (InetAddress address : candidate.inetAddresses().toList()) {
          if (address.isLinkLocalAddress() || address.isLoopbackAddress()) {
            continue;
          }
          if (best == null
              || (address instanceof Inet4Address && !(best instanceof Inet4Address))) {
            best = address;
          }
        }
      }
    } catch (SocketException e) {
      return "127.0.0.1";
    }
    if (best == null) {
      return "127.0.0.1";
    }
    String text = best.getHostAddress();
    int zone = text.indexOf('%');
    return zone < 0 ? text : text.substring(0, zone);
  }
}
