package dev.mooncake4j.core.schedules;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.rig.RigDecoder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/** The server around one decoder rank: what it asked for, and what it must be told. */
final class DecodeServer {
  final RigDecoder rank;
  final BlockPool blocks;
  private final boolean whole;
  private final Map<String, Pull> unended = new HashMap<>();
  private final Set<String> unquiet = new HashSet<>();
  private int received;
  private int failed;

  /**
   * A request whose blocks are being fetched.
   *
   * @param first place among the prefiller's blocks of the first of these; the last ones are asked
   */
  @SuppressWarnings("ArrayRecordComponent") // Handed on, never compared.
  record Pull(String requestId, String transferId, int[] blocks, int first) {
    @Override
    public boolean equals(@Nullable Object o) {
      return this == o;
    }

    @Override
    public int hashCode() {
      return requestId.hashCode();
    }
  }

  /**
   * A server of a rank.
   *
   * @param whole whether a block here has the bytes of a block there, so that patterns compare
   */
  DecodeServer(RigDecoder rank, boolean whole) {
    this.rank = rank;
    this.whole = whole;
    this.blocks = new BlockPool(rank.cache().blocks());
  }

  /** Asks for the last {@code count} of a transfer's {@code total} blocks. */
  boolean pull(String requestId, String transferId, int count, int total, SplittableRandom random) {
    int[] taken = blocks.take(count, requestId, random);
    if (taken == null) {
      return false;
    }
    Pull pull = new Pull(requestId, transferId, taken, total - count);
    for (int block : taken) {
      rank.cache().fill(-1, block);
    }
    if (unended.putIfAbsent(requestId, pull) != null) {
      throw new AssertionError("request ids are not to be used twice at once");
    }
    rank.pull(requestId, transferId, taken);
    return true;
  }

  void takeResults() {
    StepResult result = rank.results();
    for (String requestId : result.received()) {
      Pull pull = ended(requestId);
      received++;
      for (int i = 0; i < pull.blocks().length && whole; i++) {
        int pattern = PrefillServer.pattern(pull.transferId(), pull.first() + i);
        if (!rank.cache().holds(pattern, pull.blocks()[i])) {
          throw new AssertionError(
              "wrong bytes, request_id=" + requestId + " block=" + pull.blocks()[i]);
        }
      }
    }
    for (Failure failure : result.failed()) {
      if (failure.quiet()) {
        ended(failure.requestId());
      } else if (!unquiet.add(failure.requestId())) {
        throw new AssertionError("failed twice: " + failure);
      }
      failed++;
    }
    for (Failure failure : result.quieted()) {
      if (!unquiet.remove(failure.requestId())) {
        throw new AssertionError("quiet, but never reported as not quiet: " + failure);
      }
      ended(failure.requestId());
    }
  }

  private Pull ended(String requestId) {
    Pull pull = unended.remove(requestId);
    if (pull == null) {
      throw new AssertionError("ended twice, or never begun: request_id=" + requestId);
    }
    blocks.free(pull.blocks(), requestId);
    return pull;
  }

  /** The transfer that a block is fetched for now, or {@code null}. */
  @Nullable String transferInto(int block) {
    Object owner = blocks.owner(block);
    Pull pull = owner == null ? null : unended.get(owner);
    return pull == null ? null : pull.transferId();
  }

  List<String> unended() {
    return new ArrayList<>(unended.keySet());
  }

  int received() {
    return received;
  }

  int failed() {
    return failed;
  }
}
