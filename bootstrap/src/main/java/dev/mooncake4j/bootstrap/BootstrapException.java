package dev.mooncake4j.bootstrap;

import org.jspecify.annotations.Nullable;

/**
 * A bootstrap server could not be started or reached, refused, or answered nonsense.
 *
 * <p>The message names the URL, the attempts and the last cause, or what the server said; {@link
 * #reason()} says which kind it is.
 */
public final class BootstrapException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** What went wrong. */
  public enum Reason {
    /** The server's address is not one that may be asked. Nothing was sent. */
    ADDRESS,
    /** The server's own port could not be bound. */
    BIND,
    /** No answer came: refused, reset or late, at every attempt. The cause is the last one. */
    UNREACHABLE,
    /** The server answered with a status other than 2xx: {@link #status()}. */
    REJECTED,
    /** The server's answer is too long, or is not what {@code /query} answers. */
    MALFORMED,
    /** The client or the server was closed meanwhile. */
    CLOSED,
    /** The waiting thread was interrupted; its interrupt flag is set again. */
    INTERRUPTED
  }

  private final Reason reason;
  private final @Nullable String url;
  private final int attempts;
  private final int status;

  BootstrapException(
      Reason reason,
      String message,
      @Nullable String url,
      int attempts,
      int status,
      @Nullable Throwable cause) {
    super(message, cause);
    this.reason = reason;
    this.url = url;
    this.attempts = attempts;
    this.status = status;
  }

  static BootstrapException of(Reason reason, String message) {
    return new BootstrapException(reason, message, null, 0, 0, null);
  }

  /** What went wrong. */
  public Reason reason() {
    return reason;
  }

  /** What was asked, or {@code null} where no request was meant to be sent. */
  public @Nullable String url() {
    return url;
  }

  /** How many requests were sent, 0 if none. */
  public int attempts() {
    return attempts;
  }

  /** The HTTP status of the refusal, 0 if there was none. */
  public int status() {
    return status;
  }
}
