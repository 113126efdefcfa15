package dev.mooncake4j.core.channel;

/** One connection to a prefiller's side channel; used on the channel's owning thread alone. */
public interface ChannelConnection {
  /** Where it leads, {@code tcp://host:port}. */
  String address();

  /** Whether the peer was ever reached on it. */
  boolean wasConnected();

  /** Queues one frame; {@code false} if the queue is full or the connection is closed. */
  boolean send(byte[] payload);

  /** Closes it; nothing is told of it afterwards. Idempotent. */
  void close();
}
