package dev.mooncake4j.core.results;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.StepResult.SendEnd;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 60, unit = TimeUnit.SECONDS)
class ResultQueueTest {
  /** Longer than any of these tests may take: who waits so long was not woken. */
  private static final long LONG = TimeUnit.SECONDS.toNanos(50);

  private final AtomicInteger told = new AtomicInteger();
  private final ResultQueue queue = new ResultQueue(told::incrementAndGet);

  private static Failure failure(String requestId, int... blocks) {
    return new Failure(
        requestId,
        "t-" + requestId,
        FailureStage.TRANSFER,
        "reason",
        null,
        BlockIds.of(blocks),
        true);
  }

  @Test
  void whatWasAddedIsTakenOnceAndInOrder() {
    queue.received("d1");
    queue.sent("p1", "t1", SendEnd.SERVED);
    queue.failed(failure("d2", 4, 5));
    queue.received("d3");
    StepResult result = queue.take();
    assertThat(result.received()).containsExactly("d1", "d3");
    assertThat(result.sent()).containsExactly(new StepResult.Sent("p1", "t1", SendEnd.SERVED));
    assertThat(result.failed()).containsExactly(failure("d2", 4, 5));
    assertThat(result.failedBlockIds()).containsExactly(4, 5);
    assertThat(queue.take().isEmpty()).isTrue();
    assertThat(told).hasValue(4);
    queue.received("d4");
    assertThat(queue.take().received()).containsExactly("d4");
  }

  @Test
  void whatIsThereIsNotWaitedFor() throws InterruptedException {
    queue.received("d");
    assertThat(queue.await(LONG).received()).containsExactly("d");
    assertThat(queue.await(0).isEmpty()).isTrue();
    assertThat(queue.await(-1).isEmpty()).isTrue();
    assertThat(queue.await(1).isEmpty()).isTrue();
  }

  private CompletableFuture<StepResult> waiter() {
    CompletableFuture<StepResult> result = new CompletableFuture<>();
    Thread thread =
        Thread.ofVirtual()
            .start(
                () -> {
                  try {
                    result.complete(queue.await(LONG));
                  } catch (InterruptedException | RuntimeException e) {
                    result.completeExceptionally(e);
                  }
                });
    Awaitility.await()
        .until(
            () ->
                thread.getState() == Thread.State.TIMED_WAITING
                    || thread.getState() == Thread.State.TERMINATED);
    return result;
  }

  @Test
  void oneThatWaitsIsWokenByEachKindOfResult() throws Exception {
    List<Runnable> additions =
        List.of(
            () -> queue.received("d"),
            () -> queue.sent("p", "t", SendEnd.EXPIRED),
            () -> queue.failed(failure("d", 1)));
    for (Runnable addition : additions) {
      CompletableFuture<StepResult> result = waiter();
      addition.run();
      assertThat(result.get(20, TimeUnit.SECONDS).isEmpty()).isFalse();
    }
  }

  @Test
  void closingLetsThoseThatWaitGoAndKeepsWhatIsThere() throws Exception {
    CompletableFuture<StepResult> first = waiter();
    CompletableFuture<StepResult> second = waiter();
    queue.close();
    queue.close();
    assertThat(first.get(20, TimeUnit.SECONDS).isEmpty()).isTrue();
    assertThat(second.get(20, TimeUnit.SECONDS).isEmpty()).isTrue();
    queue.received("late");
    assertThat(queue.await(LONG).received()).containsExactly("late");
    assertThat(queue.await(LONG).isEmpty()).as("nobody waits on a closed queue").isTrue();
  }

  @Test
  void oneThatWaitsCanBeInterrupted() {
    Thread.currentThread().interrupt();
    assertThatThrownBy(() -> queue.await(LONG)).isInstanceOf(InterruptedException.class);
    assertThat(Thread.interrupted()).isFalse();
  }

  @Test
  void theHookIsCalledOutsideTheLockWithTheResultInPlace() {
    List<StepResult> seen = new ArrayList<>();
    ResultQueue[] own = new ResultQueue[1];
    ResultQueue hooked =
        new ResultQueue(
            () -> {
              // Another thread can take it meanwhile.
              CompletableFuture<StepResult> taken =
                  CompletableFuture.supplyAsync(() -> own[0].take());
              seen.add(taken.orTimeout(20, TimeUnit.SECONDS).join());
            });
    own[0] = hooked;
    hooked.received("d");
    assertThat(seen).hasSize(1);
    assertThat(seen.getFirst().received()).containsExactly("d");
  }

  @Test
  void whateverTheHookThrowsTheResultsStay() {
    List<Throwable> thrown =
        List.of(
            new IllegalStateException("made to fail"),
            new AssertionError("made to fail"),
            new NoClassDefFoundError("made to fail"));
    for (Throwable each : thrown) {
      ResultQueue failing =
          new ResultQueue(
              () -> {
                switch (each) {
                  case RuntimeException e -> throw e;
                  case Error e -> throw e;
                  default -> throw new AssertionError(each);
                }
              });
      failing.received("d");
      failing.sent("p", "t", SendEnd.SERVED);
      StepResult result = failing.take();
      assertThat(result.received()).containsExactly("d");
      assertThat(result.sent()).hasSize(1);
    }
  }

  @Test
  void nothingIsLostBetweenManyThreads() throws Exception {
    int threads = 4;
    int each = 5_000;
    CountDownLatch done = new CountDownLatch(threads);
    for (int i = 0; i < threads; i++) {
      int id = i;
      Thread.ofPlatform()
          .start(
              () -> {
                for (int n = 0; n < each; n++) {
                  queue.received(id + "-" + n);
                }
                done.countDown();
              });
    }
    List<String> taken = new ArrayList<>();
    while (taken.size() < threads * each) {
      StepResult result = queue.await(TimeUnit.SECONDS.toNanos(20));
      assertThat(result.isEmpty()).as("taken=%d", taken.size()).isFalse();
      taken.addAll(result.received());
    }
    assertThat(done.await(20, TimeUnit.SECONDS)).isTrue();
    assertThat(taken).doesNotHaveDuplicates().hasSize(threads * each);
    assertThat(told).hasValue(threads * each);
  }
}
