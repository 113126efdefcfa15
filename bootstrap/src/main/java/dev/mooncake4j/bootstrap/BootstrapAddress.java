package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Locale;

/**
 * The address of a bootstrap server, {@code http://host:port}: parsed, checked and written here.
 *
 * <p>A decoder gets it in {@code remote_bootstrap_addr}, out of a client's JSON, so it may be
 * anything: only {@code http} and {@code https} with a host and no more than a port and a trailing
 * slash are let through. Thread-safe; nothing is looked up.
 */
public final class BootstrapAddress {

  /** The longest text looked at. */
  private static final int MAX_LENGTH = 1024;

  private BootstrapAddress() {}

  /**
   * Reads an address as clients write it: an IPv6 host with or without brackets, with or without
   * one trailing slash.
   *
   * @return {@code scheme://host[:port]}, without the slash
   * @throws BootstrapException with {@link Reason#ADDRESS} if it is anything else
   */
  public static URI parse(String text) {
    if (text.length() > MAX_LENGTH) {
      throw refused(text.substring(0, 64) + "...", "longer than " + MAX_LENGTH + " characters");
    }
    int separator = text.indexOf("://");
    String scheme = separator < 0 ? "" : text.substring(0, separator).toLowerCase(Locale.ROOT);
    if (!scheme.equals("http") && !scheme.equals("https")) {
      throw refused(text, "its scheme is neither http nor https");
    }
    String authority = text.substring(separator + 3);
    if (authority.endsWith("/")) {
      authority = authority.substring(0, authority.length() - 1);
    }
    if (authority.indexOf('/') >= 0 || authority.indexOf('?') >= 0 || authority.indexOf('#') >= 0) {
      throw refused(text, "it has a path, a query or a fragment");
    }
    if (authority.indexOf('@') >= 0) {
      throw refused(text, "it has user information");
    }
    HostPort parsed = HostPort.parse(authority);
    if (parsed == null) {
      throw refused(text, "it has no host, or a port outside 1 to 65535");
    }
    return toUri(scheme, parsed, text);
  }

  /**
   * The address of the server at this host and port.
   *
   * @param host a name or an address, an IPv6 literal with or without brackets
   * @param port 1 to 65535
   * @throws BootstrapException with {@link Reason#ADDRESS} if that makes no address
   */
  public static URI of(String host, int port) {
    String text = host + ":" + port;
    HostPort parsed =
        HostPort.isIpv6Literal(host)
            ? HostPort.parse("[" + host + "]:" + port)
            : HostPort.parse(text);
    if (parsed == null || parsed.port() < 0) {
      throw refused(text, "it has no host, or a port outside 1 to 65535");
    }
    return toUri("http", parsed, text);
  }

  /** Checks an address that came as a URI, by the same rules. */
  static URI check(URI address) {
    return parse(address.toString());
  }

  /** The host without brackets, in lower case: what an allow-list is asked about. */
  static String hostOf(URI checked) {
    String host = checked.getHost();
    String bare = host.startsWith("[") ? host.substring(1, host.length() - 1) : host;
    return bare.toLowerCase(Locale.ROOT);
  }

  private static URI toUri(String scheme, HostPort parsed, String text) {
    try {
      URI uri = new URI(scheme + "://" + parsed.authority()).parseServerAuthority();
      if (uri.getHost() != null) {
        return uri;
      }
    } catch (URISyntaxException e) {
      throw new BootstrapException(
          Reason.ADDRESS, message(text, e.getReason()), quote(text), 0, 0, e);
    }
    throw refused(text, "it has no host");
  }

  private static BootstrapException refused(String text, String why) {
    return new BootstrapException(Reason.ADDRESS, message(text, why), quote(text), 0, 0, null);
  }

  private static String message(String text, String why) {
    return "bootstrap_addr="
        + quote(text)
        + " is refused: "
        + why
        + "; give http://host:port with nothing after it";
  }

  /** The text with what could forge a line of a log taken out. */
  private static String quote(String text) {
    return ErrorText.printable(text, 256);
  }
}
