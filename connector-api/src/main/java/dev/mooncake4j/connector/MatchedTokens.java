package dev.mooncake4j.connector;

/**
 * How many prompt tokens can be loaded from elsewhere.
 *
 * @param tokens number of tokens beyond those already computed, at least 0
 * @param async whether they arrive later, so that the request has to wait without being run
 */
public record MatchedTokens(int tokens, boolean async) {
  /** Nothing to load. */
  public static final MatchedTokens NONE = new MatchedTokens(0, false);
}
