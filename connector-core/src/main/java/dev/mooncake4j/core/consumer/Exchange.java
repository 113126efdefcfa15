package dev.mooncake4j.core.consumer;

/** One question on one connection, until its last answer; called on the worker loop. */
interface Exchange {
  /** An answer has come; returns whether it was the last, so that the connection is free again. */
  boolean onReply(byte[] payload);

  /**
   * The connection is gone, before the last answer.
   *
   * @param wasConnected whether the peer was ever reached on it
   */
  void onClosed(String reason, boolean wasConnected);
}
