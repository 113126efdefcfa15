package dev.mooncake4j.connector;

import org.jspecify.annotations.Nullable;

/** The bootstrap server could not be reached, or refused; names URL, attempts and last cause. */
public final class BootstrapUnavailableException extends KvConnectorException {
  private static final long serialVersionUID = 1L;

  /** With URL, attempts and last cause in the message. */
  public BootstrapUnavailableException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
