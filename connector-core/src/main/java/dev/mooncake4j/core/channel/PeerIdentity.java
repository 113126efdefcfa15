package dev.mooncake4j.core.channel;

import java.util.Arrays;

/** Who has asked, as the answering socket knows them: opaque bytes. Equal by content. */
public final class PeerIdentity {
  private final byte[] bytes;

  PeerIdentity(byte[] bytes) {
    this.bytes = bytes;
  }

  /** An identity of these bytes, which are copied; for fakes of the channel. */
  public static PeerIdentity of(byte[] bytes) {
    return new PeerIdentity(bytes.clone());
  }

  byte[] bytes() {
    return bytes;
  }

  @Override
  public boolean equals(Object o) {
    return o instanceof PeerIdentity other && Arrays.equals(bytes, other.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  @Override
  public String toString() {
    return "peer-" + java.util.HexFormat.of().formatHex(bytes);
  }
}
