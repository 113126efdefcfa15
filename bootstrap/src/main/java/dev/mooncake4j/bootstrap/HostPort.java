package dev.mooncake4j.bootstrap;

import org.jspecify.annotations.Nullable;

/**
 * A host and its port, taken from text: the one place where this module reads and writes IPv6
 * literals.
 *
 * @param host without brackets
 * @param port 1 to 65535, or -1 where the text has none
 */
record HostPort(String host, int port) {

  /**
   * Reads {@code host}, {@code host:port}, {@code [v6]}, {@code [v6]:port}, {@code v6:port} or
   * {@code v6}. Where the brackets are missing, the digits after the last colon are the port if an
   * IPv6 literal remains before them: vLLM joins host and port without brackets.
   *
   * @return {@code null} if the text is none of these
   */
  static @Nullable HostPort parse(String text) {
    if (text.startsWith("[")) {
      int end = text.indexOf(']');
      if (end < 0 || !isIpv6Literal(text.substring(1, end))) {
        return null;
      }
      String host = text.substring(1, end);
      if (end == text.length() - 1) {
        return new HostPort(host, -1);
      }
      return text.charAt(end + 1) == ':' ? withPort(host, text.substring(end + 2)) : null;
    }
    int colon = text.lastIndexOf(':');
    if (colon < 0) {
      return isName(text) ? new HostPort(text, -1) : null;
    }
    String head = text.substring(0, colon);
    String tail = text.substring(colon + 1);
    if (head.indexOf(':') < 0) {
      return isName(head) ? withPort(head, tail) : null;
    }
    HostPort bare = isIpv6Literal(head) ? withPort(head, tail) : null;
    return bare != null ? bare : isIpv6Literal(text) ? new HostPort(text, -1) : null;
  }

  /** {@code tcp://host:port}, as workers register; {@code null} if the text is not of that form. */
  static @Nullable HostPort parseTcp(String text) {
    String scheme = "tcp://";
    HostPort parsed = text.startsWith(scheme) ? parse(text.substring(scheme.length())) : null;
    return parsed == null || parsed.port < 0 ? null : parsed;
  }

  private static @Nullable HostPort withPort(String host, String digits) {
    if (digits.isEmpty() || digits.length() > 5) {
      return null;
    }
    int port = 0;
    for (int i = 0; i < digits.length(); i++) {
      char c = digits.charAt(i);
      if (c < '0' || c > '9') {
        return null;
      }
      port = port * 10 + (c - '0');
    }
    return port >= 1 && port <= 65535 ? new HostPort(host, port) : null;
  }

  private static boolean isName(String text) {
    if (text.isEmpty() || text.length() > 253) {
      return false;
    }
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      boolean plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!plain && c != '.' && c != '-' && c != '_') {
        return false;
      }
    }
    return true;
  }

  /** Whether this is an IPv6 literal without brackets, by its form alone: nothing is looked up. */
  static boolean isIpv6Literal(String text) {
    int zone = text.indexOf('%');
    String address = zone < 0 ? text : text.substring(0, zone);
    if (zone >= 0 && !isName(text.substring(zone + 1))) {
      return false;
    }
    int gap = address.indexOf("::");
    if (gap < 0) {
      return groups(address) == 8;
    }
    if (address.indexOf("::", gap + 1) >= 0) {
      return false;
    }
    String head = address.substring(0, gap);
    String tail = address.substring(gap + 2);
    int before = head.isEmpty() ? 0 : head.indexOf('.') >= 0 ? -1 : groups(head);
    int after = tail.isEmpty() ? 0 : groups(tail);
    return before >= 0 && after >= 0 && before + after <= 7;
  }

  /** The number of 16-bit groups that the text stands for, -1 if it is malformed. */
  private static int groups(String text) {
    int count = 0;
    String[] parts = text.split(":", -1);
    for (int i = 0; i < parts.length; i++) {
      String part = parts[i];
      if (i == parts.length - 1 && part.indexOf('.') >= 0) {
        return isIpv4Literal(part) ? count + 2 : -1;
      }
      if (part.isEmpty() || part.length() > 4) {
        return -1;
      }
      for (int k = 0; k < part.length(); k++) {
        if (Character.digit(part.charAt(k), 16) < 0 || part.charAt(k) > 'f') {
          return -1;
        }
      }
      count++;
    }
    return count;
  }

  private static boolean isIpv4Literal(String text) {
    String[] parts = text.split("\\.", -1);
    if (parts.length != 4) {
      return false;
    }
    for (String part : parts) {
      if (part.isEmpty() || part.length() > 3) {
        return false;
      }
      int value = 0;
      for (int i = 0; i < part.length(); i++) {
        char c = part.charAt(i);
        if (c < '0' || c > '9') {
          return false;
        }
        value = value * 10 + (c - '0');
      }
      if (value > 255) {
        return false;
      }
    }
    return true;
  }

  /** As in a URL: an IPv6 literal in brackets, the port only where there is one. */
  String authority() {
    String name = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
    return port < 0 ? name : name + ":" + port;
  }
}
