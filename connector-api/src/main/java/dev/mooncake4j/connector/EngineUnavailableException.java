package dev.mooncake4j.connector;

import org.jspecify.annotations.Nullable;

/**
 * No transfer engine can be opened: the message names every place tried, the cause and the next
 * step; each failed attempt is a suppressed exception.
 */
public final class EngineUnavailableException extends KvConnectorException {
  private static final long serialVersionUID = 1L;

  /** With the whole story in the message. */
  public EngineUnavailableException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
