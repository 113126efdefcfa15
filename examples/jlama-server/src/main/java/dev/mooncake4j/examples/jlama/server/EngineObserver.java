package dev.mooncake4j.examples.jlama.server;

/** Counts what the engine does; called on the engine's thread. */
interface EngineObserver {
  /** Counts nothing. */
  EngineObserver NONE = new EngineObserver() {};

  /** Requests that wait, also for remote KV, and that are computed; blocks in use of all. */
  default void load(int waiting, int running, double cacheUsage) {}

  /** A prompt was looked for in the prefix cache. */
  default void prefixCache(int promptTokens, int foundTokens) {}

  /** A prompt's KV was fetched. */
  default void fetched(int tokens) {}

  /** Tokens of a prompt were computed. */
  default void prompt(int tokens) {}

  /** A token of an answer was made. */
  default void generated() {}
}
