package dev.mooncake4j.examples.jlama.server;

/** What the engine needs of a model; all but the text calls are for the engine's thread alone. */
interface LanguageModel {
  /** Layers that keep KV. */
  int layers();

  /** Bytes of one token's keys, and of its values, in one layer. */
  int rowBytes();

  /** The longest prompt and answer together, in tokens. */
  int contextLength();

  /** Number of tokens that there are: ids are 0 to one less; for any thread. */
  int vocabularySize();

  /** The tokens of a text; for any thread. */
  int[] encode(String text);

  /** What a token stands for, in UTF-8, of which a token may be a part; for any thread. */
  byte[] bytesOf(int token);

  /** Whether this token ends an answer; for any thread. */
  boolean isEnd(int token);

  /** Room for one request that is being computed. */
  Session openSession();

  /** The memory in which the model computes one request at a time, one after another. */
  interface Session {
    /**
     * Computes the tokens at {@code from} to {@code to} of a request, whose KV up to there is in
     * this session.
     *
     * @return the token that follows the last one, by greatest probability
     */
    int compute(int[] tokens, int from, int to);

    /** Brings the KV of some tokens of a request in from its blocks. */
    void load(KvPool pool, int[] blocks, int from, int to);

    /** Puts the KV of some tokens of a request into its blocks. */
    void store(KvPool pool, int[] blocks, int from, int to);
  }
}
