package dev.mooncake4j.connector;

import org.jspecify.annotations.Nullable;

/** The base of what the connector throws. */
public class KvConnectorException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With a message that names values and the next step. */
  public KvConnectorException(String message) {
    super(message);
  }

  /** With a message and its cause. */
  public KvConnectorException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
