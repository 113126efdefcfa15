package dev.mooncake4j.core.consumer;

import static dev.mooncake4j.core.rig.RigDecoder.pullOf;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawPrefiller;
import dev.mooncake4j.core.rig.RawPrefiller.Question;
import dev.mooncake4j.core.rig.RigDecoder;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What arrived is compared with what was sent, where the decoder wants it. */
class ConsumerIntegrityTest {
  private CoreRig rig = new CoreRig(RigOptions.defaults().withIntegrityCheck(true));
  private RigDecoder decoder = rig.decoder();
  private RigPrefiller prefiller = rig.prefiller();

  @AfterEach
  void nothingIsLeft() {
    assertThat(decoder.loop().failedEvents()).isZero();
    assertThat(decoder.consumer().pulls()).isZero();
    assertThat(decoder.consumer().quarantinedBlocks()).isZero();
    assertThat(decoder.ends()).isEmpty();
    rig.close();
  }

  private void use(RigOptions options) {
    rig.close();
    rig = new CoreRig(options.withIntegrityCheck(true));
    decoder = rig.decoder();
  }

  private void served() {
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
  }

  @Test
  void whatArrivedAsItWasSentIsReceived() {
    prefiller.cache().fill(7, 1, 2, 3);
    prefiller.ready("p1", "t1", 1, 2);
    prefiller.ready("p2", "t2", 3);
    decoder.pull(pullOf("d1", "t1", 11, 20), pullOf("d2", "t2", 12), pullOf("none", "t3"));
    served();
    assertThat(decoder.ends()).containsExactlyInAnyOrder("d1", "d2");
    assertThat(decoder.cache().holds(7, 20)).isTrue();
    prefiller.ready("p3", "t3", 4);
    rig.settle();
  }

  @Test
  void blocksThatChangeWhileTheyAreSentFailThatRequestAlone() {
    prefiller.cache().fill(7, 1, 2);
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    decoder.pull(pullOf("d1", "t1", 11), pullOf("d2", "t2", 30));
    rig.settle();
    prefiller.cache().fill(8, 2);
    served();
    assertThat(decoder.results().received()).containsExactly("d1");
    prefiller.ready("p3", "t3", 2);
  }

  @Test
  void theFailureNamesBothSums() {
    prefiller.cache().fill(7, 1);
    prefiller.ready("p", "t", 1);
    decoder.pull("d", "t", 11);
    rig.settle();
    prefiller.cache().fill(8, 1);
    served();
    Failure failure = decoder.onlyFailure();
    assertThat(failure.stage()).isEqualTo(FailureStage.INTEGRITY);
    assertThat(failure.reason()).contains("crc32c=0x").contains("sent_crc32c=0x");
    assertThat(failure.peer()).isEqualTo(prefiller.address());
    assertThat(failure.quiet()).isTrue();
    assertThat(decoder.listener().receiveFailures()).hasSize(1);
  }

  @Test
  void everyRankOfThePrefillerIsChecked() {
    use(RigOptions.defaults().withRanks(2, 1));
    prefiller = rig.prefiller(0);
    for (int tp = 0; tp < 2; tp++) {
      rig.prefiller(tp).cache().fill(3 + tp, 1, 2);
      rig.prefiller(tp).ready("p", "t", 1, 2);
    }
    decoder.pull("d", "t", 5, 9);
    rig.settle();
    rig.prefiller(1).cache().fill(9, 2);
    for (int tp = 0; tp < 2; tp++) {
      rig.prefiller(tp).transfers().completeAll();
    }
    rig.settle();
    assertThat(decoder.onlyFailure().peer()).isEqualTo(rig.prefiller(1).address());
  }

  @Test
  void aPrefillerWithoutDigestsIsBelieved() {
    RawPrefiller raw = rig.rawPrefiller();
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(raw.address())));
    decoder.pull("d", "t", 1);
    rig.settle();
    Question pull = raw.question();
    assertThat(pull.pull().digest()).isTrue();
    pull.finish("d");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d");
  }

  @Test
  void aDigestOfMemoryThatIsNotOursIsAFailureAndNothingIsRead() {
    RawPrefiller raw = rig.rawPrefiller();
    rig.bootstrap().answerAlways(List.of(CoreRig.engineAt(raw.address())));
    long end = decoder.cache().ranges().getFirst().address();
    end += decoder.cache().ranges().getFirst().length();
    for (long[] range :
        List.of(
            new long[] {8, 8},
            new long[] {end - 8, 9},
            new long[] {end - 8, -1},
            new long[] {-1, 1},
            new long[] {end - 8, Long.MAX_VALUE},
            new long[] {end - 8, 0})) {
      decoder.pull("d", "t", 1);
      rig.settle();
      raw.question()
          .answer(
              PullResponse.finished(List.of("d"), List.of(), null, 101)
                  .withDigests(Map.of("d", new TransferDigest(0, range))));
      rig.settle();
      Failure failure = decoder.onlyFailure();
      assertThat(failure.stage()).isEqualTo(FailureStage.INTEGRITY);
      assertThat(failure.reason()).contains("is not within the kv memory");
    }
  }

  @Test
  void whatIsBeingReadWhenTheConnectorClosesFailsOnce() {
    decoder.holdReads();
    prefiller.ready("p", "t", 1);
    decoder.pull("d", "t", 11);
    served();
    assertThat(decoder.ends()).isEmpty();
    decoder.consumer().close("the connector is closed");
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=SHUTDOWN");
    decoder.read();
    rig.settle();
  }

  @Test
  void givenUpWhileItIsReadItEndsAfterwards() {
    decoder.holdReads();
    prefiller.ready("p", "t", 1);
    decoder.pull("d", "t", 11);
    served();
    decoder.cancel("d");
    rig.settle();
    assertThat(decoder.ends()).isEmpty();
    decoder.read();
    rig.settle();
    assertThat(decoder.ends()).containsExactly("d=ABORTED");
  }
}
