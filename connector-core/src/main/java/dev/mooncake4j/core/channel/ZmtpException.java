package dev.mooncake4j.core.channel;

/** A peer does not keep to ZMTP; its connection ends. */
final class ZmtpException extends Exception {
  private static final long serialVersionUID = 1L;

  ZmtpException(String message) {
    super(message);
  }
}
