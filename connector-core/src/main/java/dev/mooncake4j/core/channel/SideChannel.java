package dev.mooncake4j.core.channel;

/**
 * A socket that answers decoders and connections that ask prefillers.
 *
 * <p>Every method is for the one thread that owns the channel, except {@link #wakeup} and {@link
 * #close}. No method but {@link #poll} blocks.
 */
public interface SideChannel extends AutoCloseable {

  /**
   * Binds the answering socket on a free port of a host.
   *
   * @return the port
   * @throws dev.mooncake4j.connector.KvConnectorException if it cannot be bound
   */
  int bind(String host);

  /** Opens a connection; returns at once. That it fails is told by {@link Events#onClosed}. */
  ChannelConnection connect(String host, int port);

  /** Answers a decoder; dropped if it is gone or its queue is full. */
  void reply(PeerIdentity to, byte[] payload);

  /**
   * Waits for frames, ends of connections or {@link #wakeup}, and tells them.
   *
   * @param timeoutNanos the longest wait; 0 or less does not wait
   */
  void poll(long timeoutNanos, Events events);

  /** Ends the present or next wait. Any thread; cheap; several calls are one. */
  void wakeup();

  /** Closes all, whatever the state, within two seconds. Any thread once its owner has stopped. */
  @Override
  void close();

  /** What is told, on the owning thread. */
  interface Events {
    /** A decoder asks. */
    void onRequest(PeerIdentity from, byte[] payload);

    /** A decoder has sent something that is not one frame. */
    void onMalformedRequest(PeerIdentity from, int frames);

    /** A prefiller answers. */
    void onReply(ChannelConnection connection, byte[] payload);

    /** A connection has failed or ended; it is closed already. Told once. */
    void onClosed(ChannelConnection connection, String reason);
  }
}
