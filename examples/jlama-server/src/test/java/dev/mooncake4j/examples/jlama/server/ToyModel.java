package dev.mooncake4j.examples.jlama.server;

import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * A model whose KV is the token itself and whose next token is a sum over the KV of all tokens
 * before it: wrong or missing KV gives another answer. Its text is a token for each character.
 */
final class ToyModel implements LanguageModel {
  static final int END = 7;
  private static final int VOCABULARY = 97;

  /** Tokens computed, of all sessions. */
  int computedTokens;

  boolean failing;

  @Override
  public int layers() {
    return 2;
  }

  @Override
  public int rowBytes() {
    return 4;
  }

  @Override
  public int vocabularySize() {
    return 1 << 16;
  }

  @Override
  public int contextLength() {
    return 1000;
  }

  @Override
  public int[] encode(String text) {
    return text.chars().toArray();
  }

  @Override
  public byte[] bytesOf(int token) {
    return Integer.toString(token).getBytes(StandardCharsets.US_ASCII);
  }

  @Override
  public boolean isEnd(int token) {
    return token == END;
  }

  @Override
  public Session openSession() {
    return new ToySession();
  }

  /** What the model answers, told by another way. */
  static int[] answer(int[] prompt, int length) {
    int[] answer = new int[length];
    long sum = 0;
    for (int i = 0; i < prompt.length; i++) {
      sum += (long) (i + 1) * prompt[i];
    }
    for (int i = 0; i < length; i++) {
      answer[i] = (int) (sum % VOCABULARY);
      sum += (long) (prompt.length + i + 1) * answer[i];
    }
    return answer;
  }

  private final class ToySession implements Session {
    private final Map<Integer, Integer> rows = new HashMap<>();

    @Override
    public int compute(int[] tokens, int from, int to) {
      if (failing) {
        throw new IllegalStateException("told to fail");
      }
      computedTokens += to - from;
      for (int at = from; at < to; at++) {
        rows.put(at, tokens[at]);
      }
      long sum = 0;
      for (int at = 0; at < to; at++) {
        sum += (long) (at + 1) * rows.getOrDefault(at, -1);
      }
      return (int) Math.floorMod(sum, (long) VOCABULARY);
    }

    @Override
    public void load(KvPool pool, int[] blocks, int from, int to) {
      rows.clear();
      for (int at = from; at < to; at++) {
        long offset = pool.offset(0, 0, blocks[at / 16], at % 16);
        rows.put(at, pool.memory().get(ValueLayout.JAVA_INT, offset));
      }
    }

    @Override
    public void store(KvPool pool, int[] blocks, int from, int to) {
      for (int at = from; at < to; at++) {
        write(pool, blocks, at, rows.getOrDefault(at, -1));
      }
    }
  }

  /** The KV of one token. */
  static void write(KvPool pool, int[] blocks, int at, int token) {
    long offset = pool.offset(0, 0, blocks[at / 16], at % 16);
    pool.memory().set(ValueLayout.JAVA_INT, offset, token);
  }
}
