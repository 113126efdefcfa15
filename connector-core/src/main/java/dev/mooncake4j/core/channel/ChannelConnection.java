package dev.mooncake4j.core.channel;

/** One connection to a prefiller's side channel; used on the channel's owning thread alone. */
public interface ChannelConnection {
  /** Where it leads, {@code tcp://host:port}. */
  String address();

  /** Whether the peer's host has ever taken the connection. */
  boolean wasConnected();

  /**
   * Whether the peer has ever said a word on it. Until then nothing was sent, so what was to be
   * sent can be sent again on another.
   */
  default boolean wasHeard() {
    return wasConnected();
  }

  /** Queues one frame; {@code false} if the queue is full or the connection is closed. */
  boolean send(byte[] payload);

  /** Closes it; nothing is told of it afterwards. Idempotent. */
  void close();
}
