package dev.mooncake4j.core.discovery;

import dev.mooncake4j.connector.ConfigurationException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * At which hosts peers may be whose address came from outside: {@code remote_bootstrap_addr} comes
 * out of a client's JSON, a rank's address from a bootstrap server, a decoder's from its pull, and
 * each may name anything. Immutable; nothing is looked up, so a name is allowed by its name alone.
 */
public final class AllowedHosts {
  private final List<Entry> entries;

  private interface Entry {
    boolean matches(String host, @Nullable InetAddress literal);
  }

  private AllowedHosts(List<Entry> entries) {
    this.entries = entries;
  }

  /**
   * Allows what one of these says: a name, a name's end as {@code *.cluster.local}, an address, or
   * a range as {@code 10.0.0.0/8}. An empty list allows all names, and all addresses but those that
   * no server of a cluster has: link-local ones, where clouds tell machines their secrets,
   * multicast and wildcards.
   *
   * @param key the setting's name, for messages
   * @throws ConfigurationException naming each entry that is none of these
   */
  public static AllowedHosts of(String key, List<String> allowed) {
    List<Entry> entries = new ArrayList<>();
    List<String> problems = new ArrayList<>();
    for (String text : allowed) {
      Entry entry = entry(text.strip().toLowerCase(Locale.ROOT));
      if (entry == null) {
        problems.add(
            key
                + "="
                + text
                + " is no host: give a name, *.name, an address or a range as 10.0.0.0/8, without"
                + " a scheme or port");
      } else {
        entries.add(entry);
      }
    }
    if (!problems.isEmpty()) {
      throw new ConfigurationException(problems);
    }
    return new AllowedHosts(List.copyOf(entries));
  }

  private static @Nullable Entry entry(String text) {
    int slash = text.indexOf('/');
    InetAddress address = literal(slash < 0 ? text : text.substring(0, slash));
    if (address != null) {
      byte[] network = address.getAddress();
      int bits = slash < 0 ? network.length * 8 : bits(text.substring(slash + 1));
      if (bits < 0 || bits > network.length * 8) {
        return null;
      }
      return (host, literal) -> literal != null && isWithin(literal.getAddress(), network, bits);
    }
    String name = text.startsWith("*.") ? text.substring(1) : text;
    if (!name.matches("[.]?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")) {
      return null;
    }
    return text.startsWith("*.")
        ? (host, literal) -> literal == null && host.endsWith(name)
        : (host, literal) -> literal == null && host.equals(name);
  }

  private static int bits(String digits) {
    return digits.matches("[0-9]{1,3}") ? Integer.parseInt(digits) : -1;
  }

  private static boolean isWithin(byte[] address, byte[] network, int bits) {
    if (address.length != network.length) {
      return false;
    }
    for (int bit = 0; bit < bits; bit++) {
      int mask = 0x80 >> (bit & 7);
      if ((address[bit >> 3] & mask) != (network[bit >> 3] & mask)) {
        return false;
      }
    }
    return true;
  }

  /** The address that a text is, in any form that a look-up would take for one; no zone. */
  private static @Nullable InetAddress literal(String text) {
    String bare =
        text.startsWith("[") && text.endsWith("]") ? text.substring(1, text.length() - 1) : text;
    int zone = bare.indexOf('%');
    try {
      return InetAddress.ofLiteral(zone < 0 ? bare : bare.substring(0, zone));
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  /** Whether this host, in lower case and without brackets, may be asked. */
  public boolean allow(String host) {
    InetAddress literal = literal(host);
    if (entries.isEmpty()) {
      return literal == null
          || !(literal.isLinkLocalAddress()
              || literal.isMulticastAddress()
              || literal.isAnyLocalAddress());
    }
    return entries.stream().anyMatch(entry -> entry.matches(host, literal));
  }
}
