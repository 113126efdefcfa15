package dev.mooncake4j.core.channel;

import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.core.wire.WireCodec;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Times and bounds of a {@link ZmtpSideChannel}.
 *
 * @param heartbeatInterval silence after which a prefiller is asked for a sign of life
 * @param heartbeatTimeout time that it has for it
 * @param connectTimeout time for the TCP connection and the handshake, either way
 * @param queueMessages messages that wait to be sent to one peer
 * @param queueBytes bytes that wait to be sent to one peer; one message may always wait
 * @param maxConnections connections that we make
 * @param maxPeers connections that we accept
 * @param maxPeersOfHost the same from one address, so that one host leaves room for the others
 * @param maxMessageBytes largest message that is read
 * @param secret what both sides of a connection must have, or {@code null} for none
 */
record ZmtpSettings(
    Duration heartbeatInterval,
    Duration heartbeatTimeout,
    Duration connectTimeout,
    int queueMessages,
    int queueBytes,
    int maxConnections,
    int maxPeers,
    int maxPeersOfHost,
    int maxMessageBytes,
    @Nullable SharedSecret secret) {

  /**
   * What is used unless a test says otherwise.
   *
   * <ul>
   *   <li>Heartbeats: a black hole is noticed within 8 s, long before any abort timeout.
   *   <li>Connecting: a host that drops packets would keep TCP trying for two minutes.
   *   <li>Queue: a burst of all requests of a large batch fits; a peer that does not read holds no
   *       more memory than that.
   *   <li>Connections: one per prefiller rank.
   *   <li>Peers: vLLM opens a connection per pull.
   * </ul>
   */
  static final ZmtpSettings DEFAULT =
      new ZmtpSettings(
          Duration.ofSeconds(2),
          Duration.ofSeconds(6),
          Duration.ofSeconds(5),
          4096,
          WireCodec.MAX_MESSAGE_BYTES,
          4096,
          8192,
          4096,
          WireCodec.MAX_MESSAGE_BYTES,
          null);

  /** These with another secret. */
  ZmtpSettings withSecret(@Nullable SharedSecret shared) {
    return new ZmtpSettings(
        heartbeatInterval,
        heartbeatTimeout,
        connectTimeout,
        queueMessages,
        queueBytes,
        maxConnections,
        maxPeers,
        maxPeersOfHost,
        maxMessageBytes,
        shared);
  }
}
