package dev.mooncake4j.examples.proxy;

import dev.mooncake4j.bootstrap.BootstrapAddress;
import dev.mooncake4j.bootstrap.BootstrapException;
import dev.mooncake4j.connector.SharedSecret;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What the proxy is to do, checked.
 *
 * @param host to listen on
 * @param port to listen on, 0 for any free one
 * @param prefillers at least one
 * @param decoders URLs without a trailing slash, at least one
 * @param timeout the longest wait for an answer to begin, and for the next piece of a stream
 * @param drain how long requests under way may take when the proxy stops
 * @param refresh how often bootstrap servers are asked
 * @param maxBodyBytes of a request
 * @param apiKey for the servers where a client brings none, or {@code null}
 * @param secret what the bootstrap servers ask for, or {@code null}
 */
record ProxyOptions(
    String host,
    int port,
    List<Prefiller> prefillers,
    List<URI> decoders,
    Duration timeout,
    Duration drain,
    Duration refresh,
    int maxBodyBytes,
    @Nullable String apiKey,
    @Nullable SharedSecret secret) {

  /** vLLM's default. */
  static final int BOOTSTRAP_PORT = 8998;

  /** Room for some images in a chat. */
  static final int MAX_BODY_BYTES = 64 << 20;

  static final Duration REFRESH = Duration.ofSeconds(2);

  ProxyOptions {
    prefillers = List.copyOf(prefillers);
    decoders = List.copyOf(decoders);
  }

  /**
   * Pairs prefillers with their bootstrap servers.
   *
   * @param words of {@code --prefill}: URLs, each alone or followed by a port or {@code none}
   * @param bootstraps of {@code --bootstrap}: none, one for all, or one for each
   * @param problems takes what is wrong
   */
  static List<Prefiller> prefillers(
      List<String> words, List<String> bootstraps, List<String> problems) {
    List<URI> urls = new ArrayList<>();
    List<@Nullable Integer> ports = new ArrayList<>();
    for (String word : words) {
      boolean port = word.matches("\\d+") || word.toLowerCase(Locale.ROOT).equals("none");
      if (!port) {
        URI url = url("--prefill", word, problems);
        if (url != null) {
          urls.add(url);
          ports.add(null);
        }
      } else if (!urls.isEmpty() && ports.getLast() == null) {
        ports.set(ports.size() - 1, port(word, problems));
      } else if (problems.isEmpty()) {
        problems.add("--prefill " + word + " has no URL before it: give URL [BOOTSTRAP_PORT]");
      }
    }
    if (!problems.isEmpty()) {
      return List.of();
    }
    if (bootstraps.size() > 1 && bootstraps.size() != urls.size()) {
      problems.add(
          "--bootstrap is given "
              + bootstraps.size()
              + " times for "
              + urls.size()
              + " prefillers: give it once for all, or once for each in their order");
      return List.of();
    }
    List<Prefiller> prefillers = new ArrayList<>();
    for (int i = 0; i < urls.size(); i++) {
      URI url = urls.get(i);
      Integer port = ports.get(i);
      try {
        prefillers.add(
            new Prefiller(
                url,
                bootstraps.isEmpty()
                    ? BootstrapAddress.of(url.getHost(), port != null ? port : BOOTSTRAP_PORT)
                    : BootstrapAddress.parse(
                        bootstraps.size() == 1 ? bootstraps.getFirst() : bootstraps.get(i))));
      } catch (BootstrapException e) {
        problems.add(String.valueOf(e.getMessage()));
      }
    }
    return prefillers;
  }

  /**
   * The shared secret of the prefillers, from a file or the environment.
   *
   * @param file of {@code --secret-file}, {@code null} if it is not given
   * @param problems takes what is wrong
   */
  static @Nullable SharedSecret secret(
      @Nullable String file, Map<String, String> environment, List<String> problems) {
    String text = environment.get("MOONCAKE4J_SHARED_SECRET");
    try {
      String from = file != null ? file : environment.get("MOONCAKE4J_SHARED_SECRET_FILE");
      if (from != null && !from.isBlank()) {
        return SharedSecret.ofFile(Path.of(from));
      }
      return text == null || text.isBlank() ? null : SharedSecret.of(text);
    } catch (IllegalArgumentException e) {
      problems.add(String.valueOf(e.getMessage()));
      return null;
    }
  }

  private static int port(String word, List<String> problems) {
    if (word.toLowerCase(Locale.ROOT).equals("none")) {
      return BOOTSTRAP_PORT;
    }
    int port = word.length() <= 5 ? Integer.parseInt(word) : -1;
    if (port < 1 || port > 65535) {
      problems.add("--prefill … " + word + " is not a bootstrap port: give 1 to 65535");
    }
    return port;
  }

  /** A server's URL without a trailing slash, or {@code null} with a problem. */
  static @Nullable URI url(String option, String text, List<String> problems) {
    String trimmed = text.endsWith("/") ? text.substring(0, text.length() - 1) : text;
    try {
      URI url = new URI(trimmed);
      String scheme = String.valueOf(url.getScheme()).toLowerCase(Locale.ROOT);
      boolean plain = url.getQuery() == null && url.getFragment() == null;
      if ((scheme.equals("http") || scheme.equals("https")) && url.getHost() != null && plain) {
        return url;
      }
    } catch (URISyntaxException e) {
      // Told below, with the text as it came.
    }
    problems.add(option + " " + text + " is not a server's URL: give http://HOST:PORT");
    return null;
  }
}
