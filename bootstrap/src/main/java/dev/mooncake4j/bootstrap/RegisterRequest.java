package dev.mooncake4j.bootstrap;

/**
 * One worker of a prefiller and the address of its side channel, as {@code POST /register} has it.
 *
 * @param engineId the engine that the worker belongs to, 1 to {@value #MAX_TEXT} characters
 * @param dpRank data-parallel rank, 0 to {@value #MAX_RANK}
 * @param tpRank tensor-parallel rank, 0 to {@value #MAX_RANK}
 * @param ppRank pipeline stage, 0 to {@value #MAX_RANK}
 * @param addr the worker's side channel, {@code tcp://host:port}, 1 to {@value #MAX_TEXT}
 *     characters; like vLLM's server, ours takes any text
 */
public record RegisterRequest(String engineId, int dpRank, int tpRank, int ppRank, String addr) {

  /** The longest engine id and address; vLLM's are a UUID with a suffix and a host with a port. */
  static final int MAX_TEXT = 512;

  /** The highest rank: far above any cluster, and low enough to be an int in every language. */
  static final int MAX_RANK = 1_000_000;

  /**
   * Checks the ranges.
   *
   * @throws IllegalArgumentException if a value is outside its range
   */
  public RegisterRequest {
    checkText("engine_id", engineId);
    checkRank("dp_rank", dpRank);
    checkRank("tp_rank", tpRank);
    checkRank("pp_rank", ppRank);
    checkText("addr", addr);
  }

  private static void checkText(String name, String value) {
    if (value.isEmpty() || value.length() > MAX_TEXT) {
      throw new IllegalArgumentException(
          name + " has length=" + value.length() + ": give 1 to " + MAX_TEXT + " characters");
    }
    if (!isWellFormed(value)) {
      throw new IllegalArgumentException(
          name + " has half a surrogate pair: give text that UTF-8 can carry");
    }
  }

  private static void checkRank(String name, int rank) {
    if (rank < 0 || rank > MAX_RANK) {
      throw new IllegalArgumentException(name + "=" + rank + ": give 0 to " + MAX_RANK);
    }
  }

  /** Whether the text has no half of a surrogate pair, which UTF-8 could not carry. */
  static boolean isWellFormed(String text) {
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (Character.isHighSurrogate(c)
          && i + 1 < text.length()
          && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else if (Character.isSurrogate(c)) {
        return false;
      }
    }
    return true;
  }
}
