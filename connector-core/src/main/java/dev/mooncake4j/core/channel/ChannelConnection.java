package dev.mooncake4j.core.channel;

/** A connection to one prefiller. Used by the thread that owns the {@link SideChannel} alone. */
public interface ChannelConnection {
  /** {@code tcp://host:port} as it was asked for, an IPv6 host in brackets. */
  String address();

  /**
   * Whether the handshake was done. Before it nothing has been sent: the peer knows no question.
   */
  boolean wasConnected();

  /**
   * Whether the attempt to connect was refused: the peer's host lives and nobody listens there, so
   * the process that did is gone. That a peer cannot be reached otherwise says nothing of it.
   */
  boolean wasRefused();

  /**
   * Sends a message; never waits. The array must not change afterwards.
   *
   * @return false if the connection is closed, or its queue is full because the peer does not read
   */
  boolean send(byte[] payload);

  /** Closes the connection and drops what is unsent; nothing more is delivered for it. */
  void close();
}
