package dev.mooncake4j.core.schedules;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Whatever servers, networks and engines do, every request ends once, nothing is left over, and no
 * byte is written where it does not belong.
 *
 * <p>The seed is printed; {@code -Dm4j.seed=N} and {@code -Dm4j.schedules=1} run one schedule
 * again.
 */
class RandomSchedulesTest {
  private static final int ACTIONS = 60;

  @Test
  @Timeout(value = 600, unit = TimeUnit.SECONDS)
  void everyRequestEndsOnceAndNothingIsLeft() {
    long first = Long.getLong("m4j.seed", System.nanoTime());
    int schedules = Integer.getInteger("m4j.schedules", 10_000);
    System.out.println("RandomSchedulesTest seed=" + first + " schedules=" + schedules);
    long received = 0;
    long failed = 0;
    Schedule.Early early = Schedule.Early.NONE;
    for (long seed = first; seed < first + schedules; seed++) {
      try (Schedule schedule = new Schedule(seed)) {
        schedule.run(ACTIONS);
        received += schedule.received();
        failed += schedule.failed();
        early = early.plus(schedule.early());
      } catch (RuntimeException | AssertionError e) {
        throw new AssertionError("schedule failed: -Dm4j.seed=" + seed + " -Dm4j.schedules=1", e);
      }
    }
    System.out.println(
        "RandomSchedulesTest received=" + received + " failed=" + failed + " early=" + early);
    if (schedules >= 1000) {
      assertThat(received).as("schedules that move nothing test nothing").isPositive();
      assertThat(failed).isPositive();
      assertThat(early.writes()).as("prefills that go on while blocks are sent").isPositive();
      assertThat(early.besideAnother()).isPositive();
      assertThat(early.left()).isPositive();
      assertThat(early.givenUp()).isPositive();
      assertThat(early.begunAnew()).isPositive();
    }
  }
}
