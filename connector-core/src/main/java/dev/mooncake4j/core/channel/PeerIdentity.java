package dev.mooncake4j.core.channel;

/**
 * What a requester is answered by, for as long as its connection lasts. No two connections of a
 * channel have the same.
 *
 * @param number counts the connections accepted
 */
public record PeerIdentity(long number) {
  @Override
  public String toString() {
    return "peer-" + number;
  }
}
