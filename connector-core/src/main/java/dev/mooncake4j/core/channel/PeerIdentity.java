package dev.mooncake4j.core.channel;

/**
 * What a requester is answered by, for as long as its connection lasts. No two connections of a
 * channel have the same.
 *
 * @param number counts the connections accepted
 * @param host the address that the connection comes from: what the requester says of itself is its
 *     own word, and this is not
 */
public record PeerIdentity(long number, String host) {
  @Override
  public String toString() {
    return "peer-" + number;
  }
}
