package dev.mooncake4j.connector;

/** Why the server is done with a request. */
public enum FinishReason {
  /** The length limit was reached; on a prefiller this is the usual end. */
  LENGTH,
  /** A stop token or stop string came; the KV is whole and is sent all the same. */
  STOP,
  /** The user or the server gave the request up. */
  ABORTED,
  /** The server failed on it. */
  ERROR;

  /** Whether the KV of the prompt is whole, so that it can be sent. */
  public boolean hasKv() {
    return this == LENGTH || this == STOP;
  }
}
