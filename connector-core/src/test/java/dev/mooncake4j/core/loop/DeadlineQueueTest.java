package dev.mooncake4j.core.loop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class DeadlineQueueTest {

  @Test
  void agreesWithASortedListUnderRandomOperations() {
    long seed = Long.getLong("mooncake4j.seed", System.nanoTime());
    System.out.println("DeadlineQueueTest seed=" + seed);
    Random random = new Random(seed);
    DeadlineQueue queue = new DeadlineQueue();
    List<Deadline> model = new ArrayList<>();
    for (int i = 0; i < 50_000; i++) {
      switch (random.nextInt(5)) {
        case 0, 1 -> model.add(queue.add(random.nextInt(1000), DeadlineQueueTest::nothing));
        case 2 -> {
          if (!model.isEmpty()) {
            model.remove(random.nextInt(model.size())).cancel();
          }
        }
        case 3 -> {
          if (!model.isEmpty()) {
            model.get(random.nextInt(model.size())).moveTo(random.nextInt(1000));
          }
        }
        default -> {
          Deadline first = queue.first();
          if (first != null) {
            first.cancel();
            assertThat(model.remove(first)).isTrue();
          }
        }
      }
      assertThat(queue.size()).isEqualTo(model.size());
      Deadline first = queue.first();
      long least = model.stream().mapToLong(Deadline::at).min().orElse(-1);
      assertThat(first == null ? -1 : first.at()).isEqualTo(least);
    }
  }

  @Test
  void comparesMomentsAcrossTheClocksWrap() {
    DeadlineQueue queue = new DeadlineQueue();
    Deadline late = queue.add(Long.MIN_VALUE + 10, DeadlineQueueTest::nothing);
    Deadline early = queue.add(Long.MAX_VALUE - 10, DeadlineQueueTest::nothing);
    assertThat(queue.first()).isSameAs(early);
    early.cancel();
    assertThat(queue.first()).isSameAs(late);
  }

  @Test
  void cancellingTwiceIsHarmlessAndMovingACancelledOneIsNot() {
    DeadlineQueue queue = new DeadlineQueue();
    Deadline one = queue.add(1, DeadlineQueueTest::nothing);
    one.cancel();
    one.cancel();
    assertThat(one.isPending()).isFalse();
    assertThat(queue.size()).isZero();
    assertThatThrownBy(() -> one.moveTo(2)).isInstanceOf(IllegalStateException.class);
  }

  private static void nothing() {}
}
