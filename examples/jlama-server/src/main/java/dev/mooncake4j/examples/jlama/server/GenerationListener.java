package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.FinishReason;
import org.jspecify.annotations.Nullable;

/** Hears of one request, on the engine's thread: must return at once. */
interface GenerationListener {
  /**
   * A token of the answer.
   *
   * @param end why this is the last one, or {@code null}
   * @param cachedTokens of the prompt that did not have to be computed here
   */
  void token(int token, @Nullable FinishReason end, int cachedTokens);

  /** Nothing more comes. */
  void failed(String reason);
}
