package dev.mooncake4j.core.worker;

import dev.mooncake4j.core.discovery.Bootstrap;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.discovery.RankRegistration;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps one prefiller rank's entry at a bootstrap server of another process: one that is restarted
 * knows nobody, and a rank would be found by no new decoder until it is restarted too.
 *
 * <p>Every ten seconds the server is asked who is there, one question at a time; a rank whose place
 * is empty registers again. A place that somebody else has taken is left to him: that rank has
 * registered later, and there is nothing to be won by a fight. Owned by the worker loop; never
 * blocks. Works with vLLM's server as well, which gets a {@code GET /query} and nothing else unless
 * it has lost the entry.
 */
final class RegistrationWatch {
  /** One small request from each rank; and how long a restart may go unnoticed. */
  static final long INTERVAL_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static final Logger LOG = LoggerFactory.getLogger(RegistrationWatch.class);

  private final EventLoop loop;
  private final Bootstrap bootstrap;
  private final String address;
  private @Nullable RankRegistration rank;
  private @Nullable Deadline next;

  /** A registration under way; one that is over when there is none. */
  private CompletionStage<?> registering = CompletableFuture.completedStage(null);

  /** What was told last: each trouble is told once, and so is its end. */
  private State told = State.REGISTERED;

  private enum State {
    REGISTERED,
    UNREACHABLE,
    NOT_TAKEN,
    ANOTHERS
  }

  RegistrationWatch(EventLoop loop, Bootstrap bootstrap, String address) {
    this.loop = loop;
    this.bootstrap = bootstrap;
    this.address = address;
  }

  /** Begins to watch a rank that has just been registered; a call for the same one does nothing. */
  void begin(RankRegistration registered) {
    if (rank == null) {
      rank = registered;
      scheduleNext();
    }
  }

  /**
   * Ends for good.
   *
   * @return completes, or fails, when no registration is under way any more
   */
  CompletionStage<?> end() {
    rank = null;
    if (next != null) {
      next.cancel();
    }
    return registering;
  }

  private void scheduleNext() {
    next = loop.schedule(INTERVAL_NANOS, this::check);
  }

  private void check() {
    RankRegistration watched = rank;
    if (watched != null) {
      onLoop(
          attempt(bootstrap::queryOwn),
          (engines, failure) -> {
            if (engines == null) {
              tell(State.UNREACHABLE, watched, text(failure));
              scheduleNext();
            } else {
              look(watched, engines);
            }
          });
    }
  }

  private void look(RankRegistration watched, List<EngineAddresses> engines) {
    State found = stateOf(watched, engines);
    if (found != null) {
      tell(found, watched, "engines=" + engines);
      scheduleNext();
      return;
    }
    if (told != State.NOT_TAKEN) {
      LOG.warn(
          "bootstrap server at={} does not know this rank, which registers again: was it"
              + " restarted? engine_id={} dp_rank={} tp_rank={} pp_rank={}",
          address,
          watched.engineId(),
          watched.dpRank(),
          watched.tpRank(),
          watched.ppRank());
    }
    CompletionStage<RankRegistration> taken =
        attempt(server -> bootstrap.registerAsync(server, watched));
    registering = taken;
    onLoop(
        taken,
        (entry, failure) -> {
          if (entry == null) {
            tell(State.NOT_TAKEN, watched, text(failure));
          } else {
            told = State.REGISTERED;
            LOG.info("prefiller rank registered again addr={} at={}", entry.address(), address);
          }
          scheduleNext();
        });
  }

  /** What is at the rank's place, {@code null} if it is empty. */
  private static @Nullable State stateOf(RankRegistration watched, List<EngineAddresses> engines) {
    for (EngineAddresses engine : engines) {
      if (engine.dpRank() == watched.dpRank()) {
        if (!engine.engineId().equals(watched.engineId())) {
          return State.ANOTHERS;
        }
        var stages = engine.byTpAndPp().get(watched.tpRank());
        String there = stages == null ? null : stages.get(watched.ppRank());
        if (there == null) {
          return null;
        }
        return there.equals(watched.address()) ? State.REGISTERED : State.ANOTHERS;
      }
    }
    return null;
  }

  private void tell(State state, RankRegistration watched, String detail) {
    if (state == told) {
      return;
    }
    told = state;
    switch (state) {
      case REGISTERED ->
          LOG.info("bootstrap server at={} answers and knows this rank again", address);
      case UNREACHABLE ->
          LOG.warn(
              "bootstrap server at={} does not answer: new decoders do not find this rank, it is"
                  + " asked on; {}",
              address,
              detail);
      case NOT_TAKEN ->
          LOG.warn(
              "bootstrap server at={} does not take this rank back, which is tried on; {}",
              address,
              detail);
      case ANOTHERS ->
          LOG.warn(
              "the place of engine_id={} dp_rank={} tp_rank={} pp_rank={} at bootstrap server at={}"
                  + " is another's now: no decoder finds this rank, end it or give it another"
                  + " dp_rank; {}",
              watched.engineId(),
              watched.dpRank(),
              watched.tpRank(),
              watched.ppRank(),
              address,
              detail);
    }
  }

  private static String text(@Nullable Throwable failure) {
    Throwable told =
        failure instanceof CompletionException && failure.getCause() != null
            ? failure.getCause()
            : failure;
    return String.valueOf(told == null ? null : told.getMessage());
  }

  private <T> CompletionStage<T> attempt(Function<String, CompletionStage<T>> ask) {
    try {
      return ask.apply(address);
    } catch (RuntimeException e) {
      return CompletableFuture.failedStage(e);
    }
  }

  /** What is to be done with an answer: exactly one of the two is given. */
  private interface Then<T> {
    void accept(@Nullable T answer, @Nullable Throwable failure);
  }

  /** On the loop, and not any more after the end. */
  private <T> void onLoop(CompletionStage<T> stage, Then<T> then) {
    stage.whenComplete(
        (answer, failure) ->
            loop.post(
                () -> {
                  if (rank != null) {
                    then.accept(answer, failure);
                  }
                }));
  }
}
