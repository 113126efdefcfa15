package dev.mooncake4j.core.channel;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Finds addresses of hosts without making anybody wait: name services may take their time. */
final class HostLookup {
  private HostLookup() {}

  /**
   * Finds a host's address: of a literal at once, of a name on a thread of its own.
   *
   * @param owner where the outcome of looking up a name goes
   */
  static void find(
      String host, Consumer<InetAddress> found, Consumer<IOException> failed, Executor owner) {
    InetAddress literal = literal(host);
    if (literal != null) {
      found.accept(literal);
      return;
    }
    Thread thread =
        new Thread(
            () -> {
              try {
                InetAddress address = InetAddress.getByName(host);
                owner.execute(() -> found.accept(address));
              } catch (UnknownHostException e) {
                owner.execute(() -> failed.accept(new IOException("unknown host, host=" + host)));
              }
            },
            "m4j-lookup");
    thread.setDaemon(true);
    thread.start();
  }

  private static @Nullable InetAddress literal(String host) {
    try {
      return InetAddress.ofLiteral(host);
    } catch (IllegalArgumentException e) {
      return null;
    }
  }
}
