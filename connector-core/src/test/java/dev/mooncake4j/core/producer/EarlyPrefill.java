package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.PullResponse.Status;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;

/**
 * One prefill that goes on, request {@code p} of transfer {@code t}, and a decoder in the test's
 * hand that asks for it as {@code d}; after each test nothing of them may be left.
 */
abstract class EarlyPrefill {
  static final int UNFINISHED = -7;

  final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(1, 0));
  final RigPrefiller prefiller = rig.prefiller();
  final String at = prefiller.address();
  final RawDecoder decoder = rig.rawDecoder();

  @AfterEach
  void nothingIsLeft() {
    assertThat(prefiller.loop().failedEvents()).isZero();
    assertThat(prefiller.producer().sends()).isZero();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(prefiller.producer().pinnedBlocks()).isZero();
    assertThat(prefiller.transfers().pending()).isZero();
    rig.advanceSeconds(121);
    assertThat(prefiller.loop().pendingDeadlines()).as("deadlines, tombstones too").isZero();
    rig.close();
  }

  /** The prefill begins, in blocks that hold nothing of it yet. */
  void begin(int... blocks) {
    prefiller.cache().fill(UNFINISHED, blocks);
    prefiller.announce("p", "t");
  }

  /** The first {@code finished} of these blocks are computed; each holds its id as a pattern. */
  void progress(int finished, int... blocks) {
    int[] done = IntStream.of(blocks).limit(finished).toArray();
    for (int block : done) {
      prefiller.cache().fill(block, block);
    }
    prefiller.progress("p", "t", blocks.length, done);
    rig.settle();
  }

  void ready(int... blocks) {
    for (int block : blocks) {
      prefiller.cache().fill(block, block);
    }
    prefiller.ready("p", "t", blocks);
    rig.settle();
  }

  void complete() {
    prefiller.transfers().completeAll();
    rig.settle();
  }

  Asked pull(int... blocks) {
    Asked asked = decoder.pull(at, "d", "t", blocks);
    rig.settle();
    return asked;
  }

  /** A prefill of blocks 1 and 3 is waited for, and the first of them is being written. */
  Asked firstOfTwoIsBeingWritten() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    progress(1, 1, 3);
    return asked;
  }

  /** A prefill of blocks 1, 3 and 5 is waited for, and the first two are written side by side. */
  Asked twoOfThreeAreBeingWritten() {
    begin(1, 3, 5);
    Asked asked = pull(20, 22, 24);
    progress(1, 1, 3, 5);
    progress(2, 1, 3, 5);
    return asked;
  }

  void assertHolds(int pattern, int block) {
    assertThat(decoder.cache().holds(pattern, block)).as("block=%d of %d", block, pattern).isTrue();
  }

  void assertServed(Asked asked) {
    PullResponse answer = asked.answer();
    assertThat(answer.status()).isEqualTo(Status.FINISH);
    assertThat(answer.okRequests()).containsExactly("d");
    assertThat(answer.errorRequests()).isEmpty();
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  static void assertFailed(Asked asked, String reason) {
    PullResponse answer = asked.answer();
    assertThat(answer.errorRequests()).containsExactly("d");
    assertThat(answer.message()).contains(reason);
    assertThat(answer.quiet()).isTrue();
  }
}
