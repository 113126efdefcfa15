package dev.mooncake4j.core.worker;

import static dev.mooncake4j.core.worker.WorkerRig.BOUND;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.rig.Threads;
import dev.mooncake4j.core.worker.WorkerRig.Node;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Closing, in any state, any number of times, from any thread. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class MooncakeWorkerCloseTest {
  private final Threads threads = Threads.now();
  private final WorkerRig rig = new WorkerRig();

  @AfterEach
  void nothingIsLeft() {
    rig.close();
    threads.assertEnded();
  }

  private static void closeSoon(Node node) {
    long start = System.nanoTime();
    node.worker.close();
    assertThat(System.nanoTime() - start).isLessThan(BOUND.toNanos());
    assertThat(node.engine.isClosed()).isTrue();
    assertThat(node.closings).hasValue(1);
    assertThat(node.worker.stats().registeredBytes()).isZero();
  }

  @Test
  void beforeAnythingWasRegistered() {
    for (KvRole role : KvRole.values()) {
      closeSoon(rig.open(role));
    }
  }

  @Test
  void twiceAndFromSeveralThreads() throws Exception {
    Node prefiller = rig.prefiller();
    CompletableFuture<?>[] closers = new CompletableFuture<?>[4];
    for (int i = 0; i < closers.length; i++) {
      closers[i] =
          CompletableFuture.runAsync(
              () -> {
                prefiller.worker.close();
                // None returns before all is closed: a process may end right after.
                assertThat(prefiller.engine.isClosed()).isTrue();
                assertThat(prefiller.closings).hasValue(1);
              });
    }
    CompletableFuture.allOf(closers).get(BOUND.toSeconds(), TimeUnit.SECONDS);
    closeSoon(prefiller);
  }

  @Test
  void afterRegisteringHasFailed() {
    Node prefiller = rig.open(KvRole.PRODUCER);
    prefiller.faults.refuseRange(0);
    assertThatThrownBy(() -> prefiller.worker.registerKvCaches(prefiller.cache.layout()))
        .isInstanceOf(KvConnectorException.class);
    closeSoon(prefiller);
  }

  @Test
  void asleep() {
    Node decoder = rig.decoder();
    decoder.worker.unregisterKvCaches();
    closeSoon(decoder);
  }

  @Test
  void aDecoderThatWaitsIsToldByItsPrefiller() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    decoder.pull("d", "t", 5);
    prefiller.ready("kept", "u", 1);
    Awaitility.await().atMost(BOUND).until(() -> prefiller.worker.stats().waitingPulls() == 1);
    closeSoon(prefiller);
    StepResult result = decoder.await();
    assertThat(result.failed()).hasSize(1);
    assertThat(result.failed().getFirst().reason()).contains("the connector is closed");
    assertThat(prefiller.worker.poll().sent())
        .containsExactly(new StepResult.Sent("kept", "u", StepResult.SendEnd.RELEASED));
    Awaitility.await().atMost(BOUND).until(() -> decoder.worker.stats().pulls() == 0);
  }

  @Test
  void aDecoderFailsWhatItFetches() throws Exception {
    rig.prefiller();
    Node decoder = rig.decoder();
    decoder.pull("d", "t", 5);
    Awaitility.await().atMost(BOUND).until(() -> decoder.worker.stats().pulls() == 1);
    CompletableFuture<StepResult> waits = new CompletableFuture<>();
    Thread.ofVirtual()
        .start(
            () -> {
              try {
                waits.complete(decoder.await());
              } catch (InterruptedException e) {
                waits.completeExceptionally(e);
              }
            });
    closeSoon(decoder);
    StepResult result = waits.get(BOUND.toSeconds(), TimeUnit.SECONDS);
    assertThat(result.failed()).hasSize(1);
    assertThat(result.failed().getFirst().stage()).isEqualTo(FailureStage.SHUTDOWN);
    assertThat(decoder.await().isEmpty()).isTrue();
  }

  @Test
  void duringATransferThatHangs() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    prefiller.faults.holdWrites();
    decoder.pull("d", "t", 5);
    prefiller.ready("p", "t", 1);
    prefiller.faults.awaitHeldWrites(1, BOUND);
    closeSoon(prefiller);
    closeSoon(decoder);
    assertThat(decoder.worker.poll().failed()).hasSize(1);
  }

  @Test
  void duringATransferThatEndsInTime() throws Exception {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    prefiller.cache.fill(3, 1);
    prefiller.faults.holdWrites();
    decoder.pull("d", "t", 5);
    prefiller.ready("p", "t", 1);
    prefiller.faults.awaitHeldWrites(1, BOUND);
    CompletableFuture<Void> closing = CompletableFuture.runAsync(prefiller.worker::close);
    Awaitility.await().atMost(BOUND).until(() -> rig.bootstrap.registered().isEmpty());
    prefiller.faults.releaseWrites();
    closing.get(BOUND.toSeconds(), TimeUnit.SECONDS);
    assertThat(decoder.await().received()).as("its answer has left").containsExactly("d");
    assertThat(decoder.cache.holds(3, 5)).isTrue();
    assertThat(prefiller.worker.poll().sent()).hasSize(1);
  }

  @Test
  void whileItIsBeingRegistered() throws Exception {
    Node prefiller = rig.open(KvRole.PRODUCER);
    CompletableFuture<Void> entered = rig.bootstrap.blockRegistrations();
    CompletableFuture<Void> registering =
        CompletableFuture.runAsync(
            () -> prefiller.worker.registerKvCaches(prefiller.cache.layout()));
    entered.get(BOUND.toSeconds(), TimeUnit.SECONDS);
    closeSoon(prefiller);
    assertThatThrownBy(() -> registering.get(BOUND.toSeconds(), TimeUnit.SECONDS))
        .isInstanceOf(ExecutionException.class)
        .hasMessageContaining("closed while");
  }

  @Test
  void whileTransfersAreDrained() throws Exception {
    rig.prefiller();
    Node decoder = rig.decoder();
    decoder.pull("d", "t", 5);
    Awaitility.await().atMost(BOUND).until(() -> decoder.worker.stats().pulls() == 1);
    CompletableFuture<Void> draining =
        CompletableFuture.runAsync(decoder.worker::unregisterKvCaches);
    Awaitility.await()
        .atMost(BOUND)
        .until(
            () -> {
              decoder.pull("refused", "u", 10);
              return decoder.await().failed().getFirst().reason().contains("no kv caches");
            });
    closeSoon(decoder);
    assertThatThrownBy(() -> draining.get(BOUND.toSeconds(), TimeUnit.SECONDS))
        .isInstanceOf(ExecutionException.class)
        .hasMessageContaining("closed while");
  }

  @Test
  void manyTimesLeavesNoThreadAndNoDescriptor() throws Exception {
    openAndClose();
    threads.assertEnded();
    long before = descriptors();
    for (int i = 0; i < 30; i++) {
      openAndClose();
    }
    threads.assertEnded();
    Awaitility.await()
        .atMost(BOUND)
        .untilAsserted(() -> assertThat(descriptors()).isLessThanOrEqualTo(before + 5));
  }

  private void openAndClose() throws InterruptedException {
    Node prefiller = rig.prefiller();
    Node decoder = rig.decoder();
    decoder.pull("d", "t", 5);
    prefiller.ready("p", "t", 1);
    assertThat(decoder.await().received()).containsExactly("d");
    decoder.worker.close();
    prefiller.worker.close();
  }

  private static long descriptors() {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.count();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
