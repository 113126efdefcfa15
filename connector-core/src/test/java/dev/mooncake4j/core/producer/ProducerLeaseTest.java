package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.PullResponse.Status;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Leases of nine seconds, renewed to six at least, where the abort timeout is thirty. */
class ProducerLeaseTest {
  private final CoreRig rig =
      new CoreRig(RigOptions.defaults().withRanks(1, 0).withLease(Duration.ofSeconds(9)));
  private final RigPrefiller prefiller = rig.prefiller();
  private final String at = prefiller.address();
  private final RawDecoder decoder = rig.rawDecoder();

  @AfterEach
  void close() {
    assertThat(prefiller.loop().failedEvents()).isZero();
    rig.close();
  }

  private PullResponse renew(String... transferIds) {
    Asked asked = decoder.renew(at, transferIds);
    rig.settle();
    PullResponse answer = asked.answer();
    assertThat(answer.status()).isEqualTo(Status.FINISH);
    return answer;
  }

  @Test
  void aLeaseBeginsWhenThePrefillEnds() {
    prefiller.announce("p", "t");
    rig.advanceSeconds(20);
    prefiller.ready("p", "t", 1);
    rig.advanceSeconds(8.9);
    assertThat(prefiller.sent()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void aRenewalExtendsToTwoThirdsFromNow() {
    prefiller.ready("p", "t", 1);
    rig.advanceSeconds(8);
    assertThat(renew("t").okRequests()).containsExactly("t");
    rig.advanceSeconds(5.9);
    assertThat(prefiller.sent()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void aRenewalNeverShortens() {
    prefiller.ready("p", "t", 1);
    rig.advanceSeconds(1);
    assertThat(renew("t").okRequests()).containsExactly("t");
    // Two thirds from then would have been 7 s after the prefill.
    rig.advanceSeconds(7.9);
    assertThat(prefiller.sent()).isEmpty();
    rig.advanceSeconds(0.2);
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void renewalsKeepALeaseForAsLongAsTheyCome() {
    prefiller.ready("p", "t", 1);
    for (int i = 0; i < 100; i++) {
      rig.advanceSeconds(1.5);
      assertThat(renew("t").okRequests()).containsExactly("t");
    }
    assertThat(prefiller.producer().leases()).isEqualTo(1);
    assertThat(prefiller.listener().renewals()).isEqualTo(100);
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(asked.answer().okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  @Test
  void aRenewedOneHoldsNobodyUp() {
    prefiller.ready("p1", "t1", 1);
    rig.advanceSeconds(1);
    prefiller.ready("p2", "t2", 2);
    rig.advanceSeconds(7);
    renew("t1");
    rig.advanceSeconds(2.1);
    assertThat(prefiller.sent()).containsExactly("p2=EXPIRED");
    rig.advanceSeconds(4);
    assertThat(prefiller.sent()).containsExactly("p1=EXPIRED");
  }

  @Test
  void whatIsAnnouncedCountsAsHeldAndWhatIsNotIsReported() {
    prefiller.announce("p1", "announced");
    prefiller.ready("p2", "ready", 1);
    prefiller.ready("p3", "expired", 2);
    rig.advanceSeconds(8);
    renew("ready");
    rig.advanceSeconds(2);
    PullResponse answer = renew("announced", "ready", "expired", "unknown");
    assertThat(answer.okRequests()).containsExactly("announced", "ready");
    assertThat(answer.errorRequests()).containsExactly("expired", "unknown");
  }

  @Test
  void whatIsEndingIsNotHeld() {
    prefiller.ready("p", "t", 1);
    decoder.pull(at, "d", "t", 3);
    rig.advanceSeconds(10);
    assertThat(renew("t").errorRequests()).containsExactly("t");
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(prefiller.sent()).containsExactly("p=EXPIRED");
  }

  @Test
  void theAbortTimeoutStillBoundsAPullsWait() {
    prefiller.announce("p", "t");
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.advanceSeconds(29);
    assertThat(asked.answers()).isEmpty();
    rig.advanceSeconds(1.1);
    assertThat(asked.answer().message()).contains("timed out");
  }

  @Test
  void aPrefillerWithoutLeasesRefusesRenewals() {
    try (CoreRig without = new CoreRig(RigOptions.defaults().withRanks(1, 0))) {
      without.prefiller().ready("p", "t", 1);
      Asked asked = without.rawDecoder().renew(without.prefiller().address(), "t");
      without.settle();
      PullResponse answer = asked.answer();
      assertThat(answer.status()).isEqualTo(Status.ERROR);
      assertThat(answer.message()).contains("kv_lease_duration");
    }
  }
}
