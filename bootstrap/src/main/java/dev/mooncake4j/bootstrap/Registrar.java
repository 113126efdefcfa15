package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.WorkerRegistry.Occupied;
import dev.mooncake4j.bootstrap.WorkerRegistry.Outcome;
import dev.mooncake4j.bootstrap.WorkerRegistry.Refused;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Registers workers, and makes room for them where the former ones are gone.
 *
 * <p>A prefiller that was killed leaves its registration behind. When another one comes in its
 * place, the former workers that are in the way are probed; once each of them has refused the
 * connection the new one takes the place, otherwise it is refused as vLLM refuses it. The state is
 * looked at anew after each probe, for others register meanwhile: only an occupant that was probed
 * itself is ever replaced.
 *
 * <p>Thread-safe.
 */
final class Registrar {

  /** How often newcomers may get in between before the answer is no. */
  static final int MAX_ROUNDS = 4;

  private final WorkerRegistry registry;
  private final Function<List<String>, CompletableFuture<Boolean>> allGone;
  private final ScheduledExecutorService timer;
  private final Duration probeDeadline;

  /**
   * @param allGone whether all of these addresses are known to refuse connections
   * @param timer for the deadline
   * @param probeDeadline how long one round of probes may take; after it nothing is proved
   */
  Registrar(
      WorkerRegistry registry,
      Function<List<String>, CompletableFuture<Boolean>> allGone,
      ScheduledExecutorService timer,
      Duration probeDeadline) {
    this.registry = registry;
    this.allGone = allGone;
    this.timer = timer;
    this.probeDeadline = probeDeadline;
  }

  /**
   * Registers a worker.
   *
   * @return complete at once unless former workers have to be probed; never completes with {@link
   *     Occupied}
   */
  CompletableFuture<Outcome> register(RegisterRequest worker) {
    return round(worker, Set.of(), 1);
  }

  private CompletableFuture<Outcome> round(RegisterRequest worker, Set<String> gone, int round) {
    Outcome outcome = registry.register(worker, gone);
    if (!(outcome instanceof Occupied occupied)) {
      return CompletableFuture.completedFuture(outcome);
    }
    Refused refused = new Refused(400, occupied.detail(), 0);
    if (round == MAX_ROUNDS) {
      return CompletableFuture.completedFuture(refused);
    }
    return bounded(allGone.apply(occupied.occupants()))
        .thenCompose(
            all -> {
              if (!all) {
                return CompletableFuture.completedFuture(refused);
              }
              Set<String> known = new HashSet<>(gone);
              known.addAll(occupied.occupants());
              return round(worker, Set.copyOf(known), round + 1);
            });
  }

  private CompletableFuture<Boolean> bounded(CompletableFuture<Boolean> verdict) {
    if (verdict.isDone()) {
      return verdict;
    }
    ScheduledFuture<?> deadline;
    try {
      deadline =
          timer.schedule(
              () -> verdict.complete(false), probeDeadline.toMillis(), TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException e) {
      // Closing: nobody is replaced any more.
      verdict.complete(false);
      return verdict;
    }
    return verdict.whenComplete((all, failure) -> deadline.cancel(false));
  }
}
