package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigOptions.Identity;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** With whom a prefiller deals. */
class ProducerPeerTest {
  private static CoreRig rig(Identity identity) {
    CoreRig rig = new CoreRig(RigOptions.defaults().withIdentity(identity));
    rig.prefiller().ready("p", "t", 1);
    return rig;
  }

  private static void serve(CoreRig rig) {
    rig.settle();
    rig.prefiller().transfers().completeAll();
    rig.settle();
  }

  @Test
  void anotherFingerprintIsRefusedWithBothAndTheBlocksStay() {
    try (CoreRig rig = rig(new Identity("Qwen2.5-7B bf16", "Qwen2.5-7B fp16", List.of()))) {
      rig.decoder().pull("d", "t", 2);
      serve(rig);
      var failure = rig.decoder().onlyFailure();
      assertThat(failure.stage()).isEqualTo(FailureStage.PLAN);
      assertThat(failure.reason()).contains("Qwen2.5-7B fp16").contains("Qwen2.5-7B bf16");
      assertThat(rig.prefiller().transfers().submitted()).isZero();
      assertThat(rig.prefiller().producer().sends()).isEqualTo(1);
      // To let the blocks go it need not hold the same model.
      rig.decoder().pull("d", "t");
      serve(rig);
      assertThat(rig.prefiller().producer().sends()).isZero();
    }
  }

  @ParameterizedTest
  @CsvSource({"same,same", "same,", ",same", ","})
  void theSameOrNoneIsServed(String prefiller, String decoder) {
    try (CoreRig rig = rig(new Identity(prefiller, decoder, List.of()))) {
      rig.decoder().pull("d", "t", 2);
      serve(rig);
      assertThat(rig.decoder().ends()).containsExactly("d");
    }
  }

  @Test
  void aDecoderWhereNoneMayBeIsNotWrittenTo() {
    // The decoder's own list has the same entries, and its prefiller is not on it either.
    try (CoreRig rig =
        new CoreRig(
            RigOptions.defaults()
                .withRanks(1, 0)
                .withIdentity(new Identity(null, null, List.of("10.0.0.0/8"))))) {
      rig.prefiller().ready("p", "t", 1);
      var asked = rig.rawDecoder().pull(rig.prefiller().address(), "d", "t", 2);
      serve(rig);
      assertThat(asked.answer().message())
          .contains("remote_hostname=127.0.0.1")
          .contains("peer_allowed_hosts");
      assertThat(rig.prefiller().producer().sends()).isEqualTo(1);
    }
  }

  @Test
  void aDecoderThatMayBeThereIsWrittenTo() {
    try (CoreRig rig = rig(new Identity(null, null, List.of("127.0.0.0/8")))) {
      rig.decoder().pull("d", "t", 2);
      serve(rig);
      assertThat(rig.decoder().ends()).containsExactly("d");
    }
  }
}
