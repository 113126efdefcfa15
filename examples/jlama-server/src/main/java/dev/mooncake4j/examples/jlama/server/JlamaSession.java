package dev.mooncake4j.examples.jlama.server;

import com.github.tjake.jlama.tensor.AbstractTensor;
import com.github.tjake.jlama.tensor.KvBufferCache;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Optional;
import java.util.UUID;

/**
 * One KV buffer of Jlama's, used for one request after another: what an earlier one left beyond the
 * tokens of this one is never looked at.
 */
final class JlamaSession implements LanguageModel.Session {
  private final JlamaModel model;
  private final KvBufferCache.KvBuffer buffer;
  private final int layers;
  private final int pageTokens;
  private int pagesReady;

  JlamaSession(JlamaModel model) {
    this.model = model;
    this.layers = model.layers();
    this.buffer = new KvBufferCache(model.model()).getKvBuffer(UUID.randomUUID());
    model.pages().whileThere(() -> touchPage(0));
    this.pageTokens = buffer.getKeyTensorsUptoPosition(0, 0)[0].shape().first();
    pagesReady = 1;
  }

  @Override
  public int compute(int[] tokens, int from, int to) {
    prepare(to);
    int next;
    if (to == from + 1) {
      try (AbstractTensor<?, ?> hidden =
          model.model().forward(tokens[from], from, buffer, Optional.empty())) {
        next = model.next(hidden);
      }
    } else {
      try (AbstractTensor<?, ?> hidden =
          model.model().batchForward(Arrays.copyOfRange(tokens, from, to), from, buffer)) {
        next = model.next(hidden.slice(hidden.shape().first() - 1));
      }
    }
    buffer.setCurrentContextPosition(to);
    return next;
  }

  @Override
  public void load(KvPool pool, int[] blocks, int from, int to) {
    copy(pool, blocks, from, to, false);
    buffer.setCurrentContextPosition(to);
  }

  @Override
  public void store(KvPool pool, int[] blocks, int from, int to) {
    copy(pool, blocks, from, to, true);
  }

  private void copy(KvPool pool, int[] blocks, int from, int to, boolean out) {
    if (from == to) {
      return;
    }
    prepare(to);
    for (int layer = 0; layer < layers; layer++) {
      copy(pool, blocks, from, to, out, layer, 0, buffer.getKeyTensorsUptoPosition(layer, to - 1));
      copy(pool, blocks, from, to, out, layer, 1, buffer.getValTensorsUptoPosition(layer, to - 1));
    }
  }

  /**
   * Rows lie one after another on both sides, up to the end of a block here and of a page there.
   */
  private void copy(
      KvPool pool,
      int[] blocks,
      int from,
      int to,
      boolean out,
      int layer,
      int half,
      AbstractTensor<?, ?>[] pages) {
    int row = pool.rowBytes();
    for (int at = from; at < to; ) {
      int inBlock = at % KvPool.BLOCK_TOKENS;
      int inPage = at % pageTokens;
      int run = Math.min(to - at, Math.min(KvPool.BLOCK_TOKENS - inBlock, pageTokens - inPage));
      MemorySegment page = pages[at / pageTokens].getMemorySegment();
      long pageOffset = (long) inPage * row;
      long poolOffset = pool.offset(layer, half, blocks[at / KvPool.BLOCK_TOKENS], inBlock);
      if (out) {
        MemorySegment.copy(page, pageOffset, pool.memory(), poolOffset, (long) run * row);
      } else {
        MemorySegment.copy(pool.memory(), poolOffset, page, pageOffset, (long) run * row);
      }
      at += run;
    }
  }

  /**
   * Makes the pages for so many tokens, in order: asked for a range of pages that are not there
   * yet, Jlama backs all of them by the file of the last one.
   */
  private void prepare(int tokens) {
    int needed = Math.ceilDiv(tokens, pageTokens);
    if (needed <= pagesReady) {
      return;
    }
    model
        .pages()
        .whileThere(
            () -> {
              for (int page = pagesReady; page < needed; page++) {
                touchPage(page * pageTokens);
              }
            });
    pagesReady = needed;
  }

  private void touchPage(int position) {
    for (int layer = 0; layer < layers; layer++) {
      buffer.getKeyTensorForPosition(layer, position);
    }
  }
}
