package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvRequest;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** A request within the engine; for the engine's thread alone. */
final class Generation {
  private final GenerationRequest request;
  private final GenerationListener listener;
  private final KvRequest kvRequest;
  private final BlockHashes hashes;

  /** The prompt and, behind it, the answer. */
  private final int[] tokens;

  private int length;

  /** Tokens whose KV is in the blocks. */
  private int computed;

  private int foundBlocks;
  private int fetchedTokens;
  private int[] blocks = new int[0];
  private boolean localOnly;
  private boolean cacheable = true;
  private LanguageModel.@Nullable Session session;

  Generation(GenerationRequest request, GenerationListener listener) {
    this.request = request;
    this.listener = listener;
    this.kvRequest = new KvRequest(request.id(), request.prompt().length, request.transfer());
    this.length = request.prompt().length;
    this.tokens = Arrays.copyOf(request.prompt(), length + request.maxTokens());
    this.hashes = new BlockHashes(request.cacheSalt());
    hashes.extend(tokens, length);
  }

  GenerationRequest request() {
    return request;
  }

  GenerationListener listener() {
    return listener;
  }

  KvRequest kvRequest() {
    return kvRequest;
  }

  BlockHashes hashes() {
    return hashes;
  }

  int[] tokens() {
    return tokens;
  }

  /** Tokens of the prompt and of the answer so far. */
  int length() {
    return length;
  }

  int promptTokens() {
    return request.prompt().length;
  }

  int answerTokens() {
    return length - request.prompt().length;
  }

  void append(int token) {
    tokens[length++] = token;
  }

  int computed() {
    return computed;
  }

  void setComputed(int tokens) {
    this.computed = tokens;
  }

  int cachedTokens() {
    return foundBlocks * KvPool.BLOCK_TOKENS + fetchedTokens;
  }

  void setFetchedTokens(int tokens) {
    this.fetchedTokens = tokens;
  }

  int[] blocks() {
    return blocks;
  }

  /** Blocks found in the cache, and those behind them that are this request's own. */
  void setBlocks(int[] found, int[] own) {
    foundBlocks = found.length;
    blocks = Arrays.copyOf(found, found.length + own.length);
    System.arraycopy(own, 0, blocks, found.length, own.length);
    computed = found.length * KvPool.BLOCK_TOKENS;
  }

  void dropBlocks() {
    blocks = new int[0];
    foundBlocks = 0;
    computed = 0;
  }

  /** The blocks of the prompt, which are those that travel. */
  BlockIds promptBlocks() {
    int n = Math.min(blocks.length, KvPool.blocksFor(promptTokens()));
    return n == 0 ? BlockIds.none() : BlockIds.of(Arrays.copyOf(blocks, n));
  }

  /** Those of the prompt's blocks that were not found in the cache. */
  int[] blocksToFetch() {
    return Arrays.copyOfRange(blocks, foundBlocks, KvPool.blocksFor(promptTokens()));
  }

  /** All blocks but those to fetch. */
  int[] blocksNotToFetch() {
    int to = KvPool.blocksFor(promptTokens());
    int[] others = Arrays.copyOf(blocks, foundBlocks + blocks.length - to);
    System.arraycopy(blocks, to, others, foundBlocks, blocks.length - to);
    return others;
  }

  boolean isLocalOnly() {
    return localOnly;
  }

  void setLocalOnly() {
    localOnly = true;
  }

  boolean isCacheable() {
    return cacheable;
  }

  /** Its blocks hold what they should not: nobody else may find them. */
  void setNotCacheable() {
    cacheable = false;
  }

  LanguageModel.@Nullable Session session() {
    return session;
  }

  void setSession(LanguageModel.@Nullable Session session) {
    this.session = session;
  }
}
