package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan.Progress;
import java.util.Arrays;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * How far one request of a decoder was written while its prefill goes on. Owned by the worker loop.
 *
 * <p>The decoder asks for the last blocks of the prompt, so where each of them comes from follows
 * from how many the prompt will have, which the progress tells. Should that, or an id, turn out
 * otherwise, or the prefill begin anew, everything is written again: what was written before is not
 * relied upon.
 */
final class StreamedPull {
  /**
   * A piece is at least this part of what is asked for: each costs a turn of an engine thread, so
   * that smaller ones wait for more.
   */
  private static final int MOST_PIECES = 16;

  /** Writes under way at a time: while one ends, the engine has the next one to go on with. */
  private static final int MOST_WRITING = 2;

  private final BlockIds asked;
  private final int leastBlocks;

  /** What the last piece was taken from; {@code null} where none could be. */
  private @Nullable Progress source;

  /** For each group, the place among the prompt's blocks of the first that is asked for. */
  private int[] first = {};

  /** The same of the next to be written. */
  private int[] next = {};

  private int writing;
  private @Nullable String failure;
  private @Nullable Consumer<@Nullable String> afterwards;

  /** Blocks here, and where they go. */
  record Piece(BlockIds local, BlockIds remote) {}

  /** A request for these blocks of the decoder, of which none was written. */
  StreamedPull(BlockIds asked) {
    this.asked = asked;
    this.leastBlocks = Math.max(1, asked.totalSize() / MOST_PIECES);
  }

  /** Whether a prompt that ends with these blocks is the one whose progress was told. */
  static boolean fits(Progress told, BlockIds all) {
    if (all.groupCount() != told.finished().groupCount()) {
      return false;
    }
    for (int g = 0; g < all.groupCount(); g++) {
      int total = told.totals().get(g);
      if (total > 0 && all.size(g) != total) {
        return false;
      }
      for (int i = 0; i < told.finished().size(g); i++) {
        if (all.get(g, i) != told.finished().get(g, i)) {
          return false;
        }
      }
    }
    return true;
  }

  boolean isWriting() {
    return writing > 0;
  }

  /**
   * The next piece that is worth a write and may be written now, from then on taken as written; or
   * {@code null}.
   */
  @Nullable Piece next(Progress progress) {
    if (writing == MOST_WRITING) {
      return null;
    }
    Progress before = source;
    if (before == null || !goesOn(before, progress)) {
      // What is under way goes to the same blocks.
      if (isWriting() || !begin(progress)) {
        return null;
      }
    }
    source = progress;
    int blocks = 0;
    for (int g = 0; g < next.length; g++) {
      blocks += Math.max(0, progress.finished().size(g) - next[g]);
    }
    if (blocks < leastBlocks) {
      return null;
    }
    int[][] local = new int[next.length][];
    int[][] remote = new int[next.length][];
    for (int g = 0; g < next.length; g++) {
      int to = Math.max(next[g], progress.finished().size(g));
      local[g] = slice(progress.finished(), g, next[g], to);
      remote[g] = slice(asked, g, next[g] - first[g], to - first[g]);
      next[g] = to;
    }
    return new Piece(BlockIds.ofGroups(local), BlockIds.ofGroups(remote));
  }

  private static boolean goesOn(Progress before, Progress now) {
    return now.restarts() == before.restarts() && now.totals().equals(before.totals());
  }

  private boolean begin(Progress progress) {
    source = null;
    int groups = progress.finished().groupCount();
    if (asked.groupCount() != groups) {
      return false;
    }
    int[] firsts = new int[groups];
    for (int g = 0; g < groups; g++) {
      int total = progress.totals().get(g);
      if (total > 0) {
        firsts[g] = total - asked.size(g);
        if (firsts[g] < 0) {
          return false;
        }
      }
    }
    first = firsts;
    next = firsts.clone();
    return true;
  }

  /**
   * What is left to write at the end of the prefill.
   *
   * @param latest the last progress that was told
   * @param all the prompt's blocks
   * @param fits whether the two {@linkplain #fits fit}
   */
  Piece rest(Progress latest, BlockIds all, boolean fits) {
    Progress before = source;
    if (before == null || !fits || !goesOn(before, latest) || Arrays.equals(first, next)) {
      return new Piece(all, asked);
    }
    int[][] local = new int[next.length][];
    int[][] remote = new int[next.length][];
    for (int g = 0; g < next.length; g++) {
      // Of a group that goes last both start at 0.
      local[g] = slice(all, g, next[g], all.size(g));
      remote[g] = slice(asked, g, next[g] - first[g], asked.size(g));
    }
    return new Piece(BlockIds.ofGroups(local), BlockIds.ofGroups(remote));
  }

  private static int[] slice(BlockIds ids, int group, int from, int to) {
    int[] slice = new int[to - from];
    for (int i = 0; i < slice.length; i++) {
      slice[i] = ids.get(group, from + i);
    }
    return slice;
  }

  /** A write of it begins. */
  void beginWrite() {
    if (writing == MOST_WRITING) {
      throw new IllegalStateException("writes under way=" + writing + " already");
    }
    writing++;
  }

  /** It waits no more while something is written: what is to be done when that is over. */
  void afterwards(Consumer<@Nullable String> action) {
    if (!isWriting() || afterwards != null) {
      throw new IllegalStateException("writing=" + writing + ", or it waits no more already");
    }
    afterwards = action;
  }

  /** Whether it waits no more. */
  boolean isLeft() {
    return afterwards != null;
  }

  /**
   * A write of it is over.
   *
   * @param why it failed, or {@code null}
   */
  void endWrite(@Nullable String why) {
    writing--;
    if (failure == null) {
      failure = why;
    }
    Consumer<@Nullable String> action = afterwards;
    if (action != null && !isWriting()) {
      action.accept(failure);
    }
  }
}
