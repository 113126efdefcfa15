package dev.mooncake4j.connector;

import org.jspecify.annotations.Nullable;

/** The transfer engine refused an operation, with its code. */
public final class TransferEngineException extends KvConnectorException {
  private static final long serialVersionUID = 1L;

  private final String operation;
  private final int code;

  /**
   * What failed.
   *
   * @param operation the engine's operation, as {@code registerLocalMemory}
   * @param code the engine's code, or 0 where it gave none
   * @param message with values and the next step
   */
  public TransferEngineException(
      String operation, int code, String message, @Nullable Throwable cause) {
    super("operation=" + operation + " code=" + code + ": " + message, cause);
    this.operation = operation;
    this.code = code;
  }

  /** The engine's operation. */
  public String operation() {
    return operation;
  }

  /** The engine's code, or 0 where it gave none. */
  public int code() {
    return code;
  }
}
