package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.loop.EventLoop;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class TombstonesTest {
  private final AtomicLong time = new AtomicLong();
  private final EventLoop loop = new EventLoop(time::get);
  private final Tombstones tombstones = new Tombstones(loop);

  @Test
  void eachIsKeptForTwoMinutesOfItsOwn() {
    tombstones.put("first", "the prefill failed", false);
    pass(60);
    tombstones.put("second", "released", true);
    pass(59);
    assertThat(tombstones.get("first")).isNotNull();
    pass(1);
    assertThat(tombstones.get("first")).isNull();
    assertThat(tombstones.get("second")).isNotNull();
    pass(59);
    assertThat(tombstones.get("second")).isNotNull();
    pass(1);
    assertThat(tombstones.size()).isZero();
    assertThat(loop.pendingDeadlines()).isZero();
  }

  @Test
  void oneThatIsPutAgainIsKeptFromThenOn() {
    tombstones.put("t", "the prefill failed", false);
    pass(100);
    tombstones.put("t", "the lease ran out", false);
    pass(119);
    assertThat(tombstones.get("t")).isNotNull();
    pass(1);
    assertThat(tombstones.get("t")).isNull();
  }

  @Test
  void pastTheBoundTheOldestIsForgotten() {
    for (int i = 0; i <= Tombstones.MAX; i++) {
      tombstones.put("t" + i, "", false);
    }
    assertThat(tombstones.size()).isEqualTo(Tombstones.MAX);
    assertThat(tombstones.get("t0")).isNull();
    assertThat(tombstones.get("t1")).isNotNull();
  }

  @Test
  void clearedTheyLeaveNoDeadlineBehind() {
    tombstones.put("t", "the prefill failed", false);
    tombstones.clear();
    assertThat(tombstones.size()).isZero();
    assertThat(loop.pendingDeadlines()).isZero();
  }

  private void pass(long seconds) {
    time.addAndGet(TimeUnit.SECONDS.toNanos(seconds));
    loop.runDue();
  }
}
