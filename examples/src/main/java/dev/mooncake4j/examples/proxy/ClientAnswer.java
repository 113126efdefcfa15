package dev.mooncake4j.examples.proxy;

import java.io.IOException;
import org.jspecify.annotations.Nullable;

/** Where one request's answer goes. One thread at a time; each ends in one of the last three. */
interface ClientAnswer {

  /**
   * Starts the answer.
   *
   * @param length of the body, or -1 where it is not known
   */
  void begin(int status, @Nullable String contentType, long length, String requestId);

  /**
   * Sends a piece of the body, and returns when the client's connection has taken it.
   *
   * @throws IOException if the client is gone, or takes nothing for too long
   */
  void write(byte[] bytes, int length) throws IOException, InterruptedException;

  /** The body is complete. */
  void end();

  /** The body will not be complete, and the client is to see that. */
  void cut();

  /** Instead of an answer. */
  void fail(ProxyFailure failure, String requestId);
}
