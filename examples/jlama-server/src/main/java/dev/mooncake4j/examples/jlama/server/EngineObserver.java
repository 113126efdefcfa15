package dev.mooncake4j.examples.jlama.server;

/** Counts what the engine does; called on the engine's thread. */
interface EngineObserver {
  /** Counts nothing. */
  EngineObserver NONE = new EngineObserver() {};

  /** Requests that wait, also for remote KV, and that are computed; blocks in use of all. */
  default void load(int waiting, int running, double cacheUsage) {}

  /** A prompt was looked for in the prefix cache. */
  default void prefixCache(int promptTokens, int foundTokens) {}

  /** Of a prompt so many tokens were not found here, and the connector was asked for them. */
  default void externalPrefixCache(int tokens) {}

  /** A prompt's KV was fetched. */
  default void fetched(int tokens) {}

  /** A prompt of so many tokens, wherever its KV is from, has its first token of an answer. */
  default void prompt(int tokens) {}

  /** A token of an answer was made. */
  default void generated() {}
}
