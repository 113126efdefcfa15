package dev.mooncake4j.core.channel;

/**
 * A worker's sockets to its peers: one on which decoders ask (bound), and one connection to each
 * prefiller that is asked.
 *
 * <p><b>Threads:</b> one thread, the worker's loop, owns the channel and makes all calls; it alone
 * is called back, from within {@link #poll}. Only {@link #wakeup}, {@link #close} and {@link
 * #droppedReplies} may come from any thread. Nothing but {@link #poll} waits, and between two polls
 * nothing is received: an owner that does not poll for some seconds looks dead to its peers.
 *
 * <p><b>Peers:</b> bounds are per peer. A peer that does not read fills its own queue and no other;
 * one that sends nonsense loses at most its own connection.
 */
public interface SideChannel extends AutoCloseable {

  /**
   * Listens for requests on a free port of an address of this host; at most once.
   *
   * @param host a name or literal of this host, or a wildcard; a name is looked up, which may block
   * @return the port
   * @throws dev.mooncake4j.connector.KvConnectorException if the address cannot be bound
   */
  int bind(String host);

  /**
   * Begins to connect to a prefiller and returns at once. Messages may be sent right away: they
   * wait for the connection. If it cannot be made, {@link Events#onClosed} says so.
   *
   * @param host a name or literal; an IPv6 literal with or without brackets
   */
  ChannelConnection connect(String host, int port);

  /**
   * Sends an answer to a requester. Never waits: an answer to one that is gone, or that reads so
   * slowly that its queue is full, is dropped and counted in {@link #droppedReplies}.
   */
  void reply(PeerIdentity to, byte[] payload);

  /** Answers that could not be sent since the channel was made. Any thread. */
  long droppedReplies();

  /**
   * Waits for frames, closed connections or a {@link #wakeup}, and delivers what there is. An
   * exception that a callback throws comes out of here; what was not yet delivered stays for the
   * next call.
   *
   * @param timeoutNanos how long to wait if there is nothing; 0 or less does not wait. Rounded up
   *     to a millisecond
   * @return number of events delivered; -1 once the channel is closed or has failed
   */
  int poll(long timeoutNanos, Events events);

  /** Makes the {@link #poll} under way, or the next one, return. Any thread; cheap; coalescing. */
  void wakeup();

  /**
   * Closes every socket; unsent messages are dropped and nothing more is delivered. Any thread, any
   * state, any number of times; returns within two seconds.
   */
  @Override
  void close();

  /** What {@link #poll} delivers. */
  interface Events {
    /** A requester's message; may be empty. The array belongs to the callee. */
    void onRequest(PeerIdentity from, byte[] payload);

    /** A requester's message that had not one frame but several. */
    void onMalformedRequest(PeerIdentity from, int frames);

    /**
     * A requester's connection has ended, after what had arrived on it was delivered: answers to it
     * are dropped from now on. Called once for each that was accepted, also one that never asked.
     */
    void onRequesterGone(PeerIdentity peer);

    /** An answer on a connection; the array belongs to the callee. */
    void onReply(ChannelConnection connection, byte[] payload);

    /**
     * A connection failed or was lost; nothing more comes from it and it is never made again by
     * itself. Answers that had arrived were delivered before. Not called for one that was closed by
     * {@link ChannelConnection#close}.
     */
    void onClosed(ChannelConnection connection, String reason);

    /**
     * The channel as a whole has failed and is of no more use; {@link #onClosed} was called for
     * every connection. Called once.
     */
    void onFailed(Throwable cause);
  }
}
