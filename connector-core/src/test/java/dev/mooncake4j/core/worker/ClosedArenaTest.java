package dev.mooncake4j.core.worker;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.rig.TestCache;
import dev.mooncake4j.core.rig.Threads;
import dev.mooncake4j.core.worker.WorkerRig.Node;
import java.lang.foreign.Arena;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A server closes an arena while its memory is registered. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class ClosedArenaTest {
  private final Threads threads = Threads.now();
  private final WorkerRig rig = new WorkerRig();

  @AfterEach
  void nothingIsLeft() {
    rig.close();
    threads.assertEnded();
  }

  @Test
  void ofAPrefillerEveryTransferFailsByNameAndNothingIsWritten() throws Exception {
    Node prefiller = rig.open(KvRole.PRODUCER);
    Node decoder = rig.decoder();
    try (Arena arena = Arena.ofShared()) {
      prefiller.worker.registerKvCaches(new TestCache(arena, 2, 64, 32).layout());
    }
    rig.tellBootstrap();
    for (int i = 0; i < 8; i++) {
      prefiller.ready("p" + i, "t" + i, 1);
      decoder.pull("d" + i, "t" + i, 5);
      Failure failure = only(decoder.await());
      assertThat(failure.requestId()).isEqualTo("d" + i);
      assertThat(failure.reason())
          .contains("the prefiller's kv memory")
          .contains("arena")
          .contains("layer=model.layers.0");
      assertThat(failure.quiet()).isTrue();
    }
    assertThat(prefiller.engine.writes()).isEmpty();
    assertThat(prefiller.worker.isHealthy()).isTrue();
    assertThat(prefiller.worker.stats().queuedTransfers()).isZero();
  }

  @Test
  void ofADecoderEveryPullFailsByNameAndIsNotSent() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.open(KvRole.CONSUMER);
    try (Arena arena = Arena.ofShared()) {
      decoder.worker.registerKvCaches(new TestCache(arena, 2, 64, 32).layout());
    }
    for (int i = 0; i < 2; i++) {
      prefiller.ready("p" + i, "t" + i, 1);
      decoder.pull("d" + i, "t" + i, 5);
      Failure failure = only(decoder.await());
      assertThat(failure.stage()).isEqualTo(FailureStage.REQUEST);
      assertThat(failure.reason()).contains("arena").contains("layer=model.layers.0");
    }
    assertThat(decoder.worker.stats().pulls()).isZero();
    assertThat(prefiller.worker.stats().leases()).as("not fetched").isEqualTo(2);
    // What only lets go needs no memory.
    decoder.pull("d9", "t1");
    StepResult sent = prefiller.await();
    assertThat(sent.sent()).extracting(StepResult.Sent::requestId).containsExactly("p1");
    assertThat(decoder.worker.isHealthy()).isTrue();
  }

  private static Failure only(StepResult result) {
    assertThat(result.failed()).hasSize(1);
    return result.failed().getFirst();
  }
}
