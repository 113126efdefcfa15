package dev.mooncake4j.core.channel;

import org.jspecify.annotations.Nullable;

/** A peer does not keep to ZMTP, or may not come in; its connection ends. */
final class ZmtpException extends Exception {
  private static final long serialVersionUID = 1L;

  private final @Nullable String toldPeer;

  ZmtpException(String message) {
    this(message, null);
  }

  private ZmtpException(String message, @Nullable String toldPeer) {
    super(message);
    this.toldPeer = toldPeer;
  }

  /**
   * A requester is not let in.
   *
   * @param toldPeer what it is told in an ERROR command, at most 255 printable characters
   * @param mechanism the security mechanism that it came with
   */
  static ZmtpException refused(String toldPeer, String mechanism) {
    return new ZmtpException("refused, mechanism=" + mechanism + ": " + toldPeer, toldPeer);
  }

  /** What the peer is told in an ERROR command, {@code null} for nothing. */
  @Nullable String toldPeer() {
    return toldPeer;
  }
}
