package dev.mooncake4j.core.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.core.plan.PlanException.Reason;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class RankPairingTest {

  @Test
  void aPairIsOneSeenFromBothSides() {
    for (int a : new int[] {1, 2, 3, 4, 6, 8, 12}) {
      for (int b : new int[] {1, 2, 3, 4, 6, 8, 12}) {
        if (a % b != 0 && b % a != 0) {
          continue;
        }
        for (int i = 0; i < a; i++) {
          for (int j = 0; j < b; j++) {
            int from = i;
            int to = j;
            boolean pairs = contains(RankPairing.targetRanks(i, a, b), j);
            assertThat(contains(RankPairing.targetRanks(j, b, a), i)).isEqualTo(pairs);
            if (pairs) {
              RankPairing.checkPaired(i, a, j, b);
            } else {
              assertThatThrownBy(() -> RankPairing.checkPaired(from, a, to, b))
                  .isInstanceOfSatisfying(
                      PlanException.class,
                      e -> assertThat(e.reason()).isEqualTo(Reason.NOT_PAIRED));
            }
          }
        }
      }
    }
  }

  private static boolean contains(int[] ranks, int rank) {
    return Arrays.stream(ranks).anyMatch(r -> r == rank);
  }

  /** As many pulls as a prefiller rank waits for are sent to it. */
  @Test
  void aPrefillerWaitsForAsManyAsPullFromIt() {
    int[] sizes = {1, 2, 3, 4};
    for (int tp : sizes) {
      for (int remoteTp : sizes) {
        if (Math.max(tp, remoteTp) % Math.min(tp, remoteTp) != 0) {
          continue;
        }
        for (int pp : sizes) {
          for (int remotePp : sizes) {
            int pulls = 0;
            for (int r = 0; r < remoteTp; r++) {
              for (int s = 0; s < remotePp; s++) {
                if (contains(RankPairing.targetRanks(r, remoteTp, tp), 0)
                    && contains(RankPairing.targetStages(s, remotePp, pp), 0)) {
                  pulls++;
                }
              }
            }
            assertThat(
                    RankPairing.consumerCount(new RankLayout(0, tp, 0, pp, 0), remoteTp, remotePp))
                .as("tp=%d:%d, pp=%d:%d", tp, remoteTp, pp, remotePp)
                .isEqualTo(pulls);
          }
        }
      }
    }
  }

  @Test
  void numbersOutOfRange() {
    for (Runnable call :
        new Runnable[] {
          () -> RankPairing.targetRanks(0, 1, 0),
          () -> RankPairing.targetRanks(0, 1, Integer.MAX_VALUE),
          () -> RankPairing.targetRanks(2, 2, 1),
          () -> RankPairing.targetRanks(-1, 2, 1),
          () -> RankPairing.targetStages(0, 1, 0),
          () -> RankPairing.targetStages(1, 1, 2),
          () -> RankPairing.consumerCount(RankLayout.single(), 1, -1),
          () -> RankPairing.consumerCount(RankLayout.single(), 1, Integer.MAX_VALUE)
        }) {
      assertThatThrownBy(call::run)
          .isInstanceOfSatisfying(
              PlanException.class, e -> assertThat(e.reason()).isEqualTo(Reason.RANK));
    }
    assertThat(RankPairing.targetRanks(0, 1, RankPairing.MAX_SIZE)).hasSize(RankPairing.MAX_SIZE);
  }
}
