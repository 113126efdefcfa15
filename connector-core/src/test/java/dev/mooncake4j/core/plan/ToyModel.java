package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/**
 * A small model of random shape on two engines of random shape, with one request.
 *
 * <p>It is laid out from what the words mean, by no rule of the planner's: a rank keeps the heads
 * that are its own, a row keeps its layers one after another, and each byte has a name.
 */
final class ToyModel {

  /** The name of a byte that is nobody's. */
  static final long PADDING = -1;

  /**
   * One rank's memory.
   *
   * @param bytes the names of the request's bytes by address
   * @param wanted those of them that a decoder asks for
   * @param padding addresses in the request's blocks that are nobody's
   */
  record Rank(
      RankLayout place,
      List<TransferRegion> regions,
      Map<Long, Long> bytes,
      Map<Long, Long> wanted,
      Set<Long> padding) {}

  /** One engine. */
  record Engine(int tpSize, int ppSize, BlockIds ids, List<Rank> ranks) {
    Rank rank(int tp, int pp) {
      return ranks.get(pp * tpSize + tp);
    }
  }

  /** A layer's piece, as K or V, in memory. */
  private record Piece(int layer, int index, int group, boolean shared) {
    String name() {
      return "model.layers." + layer;
    }
  }

  private final Random random;
  private final boolean mla;
  private final int heads;
  private final int headBytes;
  private final int blocksPerId;
  private final boolean packed;
  private final boolean samePadding;
  private final long paddingSeed;
  private final List<KvCacheGroup> groups = new ArrayList<>();
  private final List<Piece> pieces = new ArrayList<>();
  private final List<Integer> rowOrder = new ArrayList<>();
  private final int layers;

  /** Blocks of each group that the decoder asks for. */
  private final int[] asked;

  /** Blocks of each group that the prefiller holds beyond those. */
  private final int[] extra;

  final KvCacheSpec spec;
  final Engine prefiller;
  final Engine decoder;

  ToyModel(Random random) {
    this.random = random;
    mla = random.nextInt(4) == 0;
    heads = mla ? 1 : 1 << random.nextInt(4);
    headBytes = 1 + random.nextInt(4);
    blocksPerId = 1 + random.nextInt(3);
    layers = 1 + random.nextInt(6);
    packed = random.nextBoolean();
    samePadding = random.nextInt(4) != 0;
    paddingSeed = random.nextLong();
    boolean state = !packed && random.nextInt(4) == 0;
    int groupCount = 1 + random.nextInt(3);
    for (int g = 0; g < groupCount; g++) {
      groups.add(
          switch (random.nextInt(state ? 3 : 2)) {
            case 0 -> KvCacheGroup.fullAttention(16);
            case 1 -> KvCacheGroup.slidingWindow(16, 32);
            default -> KvCacheGroup.mamba(16);
          });
    }
    int perLayer = 1 + random.nextInt(2);
    // Layers of one group only, or rows in which several groups keep their blocks.
    boolean shared = packed && groupCount > 1 && random.nextBoolean();
    for (int layer = 0; layer < layers; layer++) {
      int group = random.nextInt(groupCount);
      for (int index = 0; index < perLayer; index++) {
        pieces.add(new Piece(layer, index, group, shared));
      }
    }
    for (int i = 0; i < pieces.size(); i++) {
      rowOrder.add(i);
    }
    if (random.nextInt(4) == 0) {
      Collections.shuffle(rowOrder, random);
    }
    asked = new int[groupCount];
    extra = new int[groupCount];
    for (int g = 0; g < groupCount; g++) {
      asked[g] = random.nextInt(5);
      extra[g] = random.nextInt(3);
    }
    spec = new KvCacheSpec(groups, mla ? random.nextInt(2) : heads, mla, blocksPerId);
    boolean hasState = spec.hasMamba();
    // A state is cut by rank and never copied between ranks: no more ranks than heads then.
    int maxTp = hasState ? heads : 8;
    int tp = 1 << random.nextInt(4);
    int remoteTp = 1 << random.nextInt(4);
    tp = Math.min(tp, maxTp);
    remoteTp = Math.min(remoteTp, maxTp);
    prefiller = engine(1L << 40, tp, 1 + random.nextInt(Math.min(3, layers)), true);
    decoder = engine(1L << 44, remoteTp, 1 + random.nextInt(Math.min(3, layers)), false);
  }

  private Engine engine(long address, int tpSize, int ppSize, boolean holdsMore) {
    int[][] ids = ids(holdsMore);
    Random paddings = new Random(samePadding ? paddingSeed : random.nextLong());
    int[] gaps = new int[pieces.size() + 1];
    for (int i = 0; i < gaps.length; i++) {
      gaps[i] = paddings.nextInt(3) == 0 ? 1 + paddings.nextInt(3) : 0;
    }
    List<Rank> ranks = new ArrayList<>();
    for (int pp = 0; pp < ppSize; pp++) {
      for (int tp = 0; tp < tpSize; tp++) {
        ranks.add(
            rank(
                new RankLayout(tp, tpSize, pp, ppSize, 0),
                address + ((long) ranks.size() << 32),
                ids,
                gaps,
                holdsMore));
      }
    }
    return new Engine(tpSize, ppSize, BlockIds.ofGroups(ids), ranks);
  }

  /**
   * Distinct ids over all groups, partly consecutive; a state's list has null blocks in between.
   */
  private int[][] ids(boolean holdsMore) {
    int[][] ids = new int[groups.size()][];
    int next = 1;
    List<Integer> order = new ArrayList<>();
    for (int g = 0; g < ids.length; g++) {
      order.add(g);
    }
    Collections.shuffle(order, random);
    for (int g : order) {
      List<Integer> list = new ArrayList<>();
      int count = asked[g] + (holdsMore ? extra[g] : 0);
      for (int i = 0; i < count; i++) {
        next += random.nextInt(3) == 0 ? random.nextInt(3) : 0;
        list.add(next++);
      }
      if (random.nextInt(3) == 0) {
        Collections.shuffle(list, random);
      }
      if (groups.get(g).kind() == KvCacheGroup.Kind.MAMBA) {
        for (int nulls = random.nextInt(3); nulls > 0; nulls--) {
          list.add(random.nextInt(list.size() + 1), 0);
        }
      }
      ids[g] = list.stream().mapToInt(Integer::intValue).toArray();
    }
    return ids;
  }

  private Rank rank(RankLayout place, long address, int[][] ids, int[] gaps, boolean holdsMore) {
    int myHeads = mla ? 1 : Math.max(heads / place.tpSize(), 1);
    int firstHead = mla ? 0 : place.tpRank() * heads / place.tpSize();
    long length = (long) myHeads * headBytes;
    long[] offsets = new long[pieces.size()];
    long row = rowOffsets(place, length, gaps, offsets);
    Rank rank =
        new Rank(place, new ArrayList<>(), new HashMap<>(), new HashMap<>(), new HashSet<>());
    Set<Long> used = new HashSet<>();
    for (int i = 0; i < pieces.size(); i++) {
      Piece piece = pieces.get(i);
      if (stage(piece.layer(), place.ppSize()) != place.ppRank()) {
        continue;
      }
      long stride = packed ? row : length + gaps[i];
      long base = packed ? address + offsets[i] : address + ((long) i << 24);
      // A row that is all of one layer counts as that layer's own.
      boolean tellsRow = packed && length < row;
      rank.regions()
          .add(
              new TransferRegion(
                  piece.name(),
                  piece.layer(),
                  base,
                  stride,
                  length,
                  piece.shared() ? TransferRegion.SHARED : piece.group(),
                  piece.shared() ? allGroups() : List.of(piece.group()),
                  tellsRow ? offsets[i] : -1,
                  1000));
      for (int g = 0; g < ids.length; g++) {
        if (piece.shared() || piece.group() == g) {
          fill(rank, piece, g, ids[g], base, stride, firstHead, myHeads, holdsMore, used);
          pad(rank, g, ids[g], packed ? address : base, stride);
        }
      }
    }
    rank.padding().removeAll(used);
    return rank;
  }

  /** Where each piece lies in its row, and the row's length. Rows of several groups overlay. */
  private long rowOffsets(RankLayout place, long length, int[] gaps, long[] offsets) {
    long[] end = new long[groups.size()];
    long row = 1;
    for (int i : rowOrder) {
      Piece piece = pieces.get(i);
      if (stage(piece.layer(), place.ppSize()) == place.ppRank()) {
        int g = piece.shared() ? 0 : piece.group();
        offsets[i] = end[g];
        row = Math.max(row, end[g] + length);
        end[g] += length + gaps[i];
      }
    }
    return row + gaps[pieces.size()];
  }

  private int stage(int layer, int ppSize) {
    return layer * ppSize / layers;
  }

  private List<Integer> allGroups() {
    List<Integer> all = new ArrayList<>();
    for (int g = 0; g < groups.size(); g++) {
      all.add(g);
    }
    return all;
  }

  private void fill(
      Rank rank,
      Piece piece,
      int group,
      int[] ids,
      long base,
      long stride,
      int firstHead,
      int myHeads,
      boolean holdsMore,
      Set<Long> used) {
    int perId = perId(group);
    // Positions count from the end: that is what both sides have in common.
    int position = asked[group] + (holdsMore ? extra[group] : 0);
    for (int id : ids) {
      if (id == 0) {
        continue;
      }
      position--;
      for (int k = 0; k < perId; k++) {
        for (int h = 0; h < myHeads; h++) {
          for (int b = 0; b < headBytes; b++) {
            long at = base + ((long) id * perId + k) * stride + (long) h * headBytes + b;
            long name = name(piece, group, position, k, firstHead + h, b);
            used.add(at);
            rank.bytes().put(at, name);
            if (!holdsMore) {
              rank.wanted().put(at, name);
            }
          }
        }
      }
    }
  }

  private void pad(Rank rank, int group, int[] ids, long base, long stride) {
    int perId = perId(group);
    for (int id : ids) {
      for (long b = 0; id != 0 && b < perId * stride; b++) {
        rank.padding().add(base + (long) id * perId * stride + b);
      }
    }
  }

  private int perId(int group) {
    return groups.get(group).kind() == KvCacheGroup.Kind.MAMBA ? 1 : blocksPerId;
  }

  private static long name(Piece piece, int group, int position, int k, int head, int b) {
    long name = piece.layer();
    for (int part : new int[] {piece.index(), group, position, k, head, b}) {
      name = name * 64 + part;
    }
    return name;
  }

  @Override
  public String toString() {
    return "spec="
        + spec
        + ", tp="
        + prefiller.tpSize()
        + ":"
        + decoder.tpSize()
        + ", pp="
        + prefiller.ppSize()
        + ":"
        + decoder.ppSize()
        + ", pieces="
        + pieces.size()
        + ", packed="
        + packed
        + ", samePadding="
        + samePadding;
  }
}
