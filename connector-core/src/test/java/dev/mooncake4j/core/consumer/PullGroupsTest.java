package dev.mooncake4j.core.consumer;

import static dev.mooncake4j.core.rig.RigDecoder.pullOf;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Which pulls share a question. */
class PullGroupsTest {
  private final PullGroups groups = new PullGroups();

  private void step(StepPlan.Pull... pulls) {
    groups.nextStep();
    for (StepPlan.Pull pull : pulls) {
      groups.add(new PullRecord(pull, 0));
    }
  }

  private static StepPlan.Pull pull(String requestId, int blocks) {
    return pullOf(requestId, "t-" + requestId, IntStream.range(0, blocks).toArray());
  }

  private List<List<String>> taken() {
    List<List<String>> taken =
        groups.take().stream()
            .map(group -> group.records.stream().map(r -> r.pull.requestId()).toList())
            .toList();
    assertThat(groups.isEmpty()).isTrue();
    return taken;
  }

  @Test
  void aStepIsOneQuestionHoweverLarge() {
    step(pull("a", 100), pull("b", 100), pull("c", 0));
    assertThat(taken()).containsExactly(List.of("a", "b", "c"));
  }

  @Test
  void smallOnesOfLaterStepsJoinUntilItIsFull() {
    step(pull("a", 60));
    step(pull("b", 4));
    step(pull("c", 1));
    step(pull("d", 0));
    assertThat(taken()).containsExactly(List.of("a", "b"), List.of("c", "d"));
  }

  @Test
  void aLargeOneJoinsNoneAndASmallOneGoesBeforeIt() {
    step(pull("a", 1));
    step(pull("b", 64));
    step(pull("c", 1));
    assertThat(taken()).containsExactly(List.of("a", "c"), List.of("b"));
  }

  @Test
  void aSmallOneThatJoinsAnEarlierStepDoesNotTakeTheLargeOnesOfItsOwnAlong() {
    step(pull("a", 1));
    step(pull("b", 1), pull("c", 8192), pull("d", 1));
    assertThat(taken()).containsExactly(List.of("a", "b"), List.of("c", "d"));
  }

  @Test
  void ofPullsWithoutBlocksAQuestionTakesABoundedNumber() {
    for (int i = 0; i <= PullGroups.MOST_JOINED_REQUESTS; i++) {
      step(pull("r" + i, 0));
    }
    List<List<String>> taken = taken();
    assertThat(taken).hasSize(2);
    assertThat(taken.get(0)).hasSize(PullGroups.MOST_JOINED_REQUESTS);
    assertThat(taken.get(1)).containsExactly("r" + PullGroups.MOST_JOINED_REQUESTS);
  }

  @Test
  void twoOfOneRequestIdAreAskedApart() {
    step(pull("a", 1), pull("b", 1), pull("a", 1));
    step(pull("a", 1));
    assertThat(taken()).containsExactly(List.of("a", "b"), List.of("a"), List.of("a"));
  }

  @Test
  void anEngineAtAnotherBootstrapServerIsAnother() {
    step(
        new StepPlan.Pull("a", "t1", "engine", "http://10.0.0.1:1", BlockIds.of(1)),
        new StepPlan.Pull("b", "t2", "engine", "http://10.0.0.2:1", BlockIds.of(1)),
        new StepPlan.Pull("c", "t3", "other", "http://10.0.0.1:1", BlockIds.of(1)),
        new StepPlan.Pull("d", "t4", "engine", "http://10.0.0.1:1", BlockIds.of(1)));
    assertThat(taken()).containsExactly(List.of("a", "d"), List.of("b"), List.of("c"));
  }
}
