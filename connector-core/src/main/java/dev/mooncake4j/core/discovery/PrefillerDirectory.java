package dev.mooncake4j.core.discovery;

import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Engine id → addresses of its ranks, asked once per bootstrap server at a time and remembered.
 *
 * <p>Owned by the worker loop. An answer that is incomplete or lacks the engine is told as a
 * failure and not remembered, so that a prefiller seen while it was coming up is asked about again.
 */
public final class PrefillerDirectory {
  /** Engines remembered; the oldest goes first. More than any fleet that one decoder talks to. */
  private static final int MAX_ENGINES = 4096;

  /**
   * A client gives up by itself, after its attempts; if one never says so, those that wait are let
   * go all the same. Longer than a client's three attempts of a usual length.
   */
  private static final long PATIENCE_NANOS = TimeUnit.MINUTES.toNanos(10);

  /**
   * Who waits for an answer waits no longer. A server that runs answers in milliseconds; one that
   * is stopped is asked by the client for minutes, and whoever waits may as well compute.
   */
  static final long WAIT_NANOS = TimeUnit.SECONDS.toNanos(15);

  private static final long LOOK_MARGIN_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final EventLoop loop;
  private final Bootstrap bootstrap;

  /**
   * By server too: an answer of one server says nothing of what another's engine of that name is,
   * and both come out of a client's JSON.
   */
  private final Map<Source, EngineAddresses> known =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Source, EngineAddresses> eldest) {
          return size() > MAX_ENGINES;
        }
      };

  private final Map<String, Question> asked = new HashMap<>();

  /** What a question comes to: exactly one of the two is given. */
  public interface Answer {
    /** The engine's ranks. */
    void found(EngineAddresses addresses);

    /** Why there are none. */
    void failed(String reason);
  }

  private record Source(String engineId, String bootstrapAddress) {}

  private record Waiter(String engineId, Answer answer, Deadline patience) {}

  /** A directory that asks through a bootstrap client and answers on the loop. */
  public PrefillerDirectory(EventLoop loop, Bootstrap bootstrap) {
    this.loop = loop;
    this.bootstrap = bootstrap;
  }

  /**
   * The engine's ranks, now if they are remembered, else when the server has answered; a failure
   * after 15 seconds.
   */
  public void find(String engineId, String bootstrapAddress, Answer answer) {
    EngineAddresses addresses = known.get(new Source(engineId, bootstrapAddress));
    if (addresses != null) {
      answer.found(addresses);
      return;
    }
    Question open = asked.get(bootstrapAddress);
    if (open != null) {
      open.add(engineId, answer);
      return;
    }
    Question question = new Question(bootstrapAddress);
    question.add(engineId, answer);
    asked.put(bootstrapAddress, question);
    query(bootstrapAddress)
        .whenComplete((engines, failure) -> loop.post(() -> question.end(engines, failure)));
    question.deadline =
        loop.schedule(
            PATIENCE_NANOS,
            () -> question.end(null, new TimeoutException("no answer, and no failure either")));
  }

  private CompletionStage<List<EngineAddresses>> query(String bootstrapAddress) {
    try {
      return bootstrap.query(bootstrapAddress);
    } catch (RuntimeException e) {
      return CompletableFuture.failedStage(e);
    }
  }

  /**
   * Whether a server still knows an engine: asked anew, once, whatever is remembered.
   *
   * @param patience how long an answer is waited for
   * @param known told once on the loop: whether the server has answered and knows the engine
   */
  public void look(
      String engineId, String bootstrapAddress, Duration patience, Consumer<Boolean> known) {
    CompletionStage<List<EngineAddresses>> answer;
    try {
      answer = bootstrap.look(bootstrapAddress, patience);
    } catch (RuntimeException e) {
      answer = CompletableFuture.failedStage(e);
    }
    // The client keeps to its time by itself; if it does not, this look is over all the same.
    Deadline late =
        loop.schedule(patience.toNanos() + LOOK_MARGIN_NANOS, () -> known.accept(false));
    answer.whenComplete(
        (engines, failure) -> {
          boolean found =
              engines != null && engines.stream().anyMatch(e -> e.engineId().equals(engineId));
          loop.post(
              () -> {
                if (late.isPending()) {
                  late.cancel();
                  known.accept(found);
                }
              });
        });
  }

  /** Forgets an engine, after one of its addresses proved wrong. */
  public void forget(String engineId, String bootstrapAddress) {
    known.remove(new Source(engineId, bootstrapAddress));
  }

  /** Number of servers being asked. */
  public int questions() {
    return asked.size();
  }

  /** One question to one server, until its answer or the end of our patience. */
  private final class Question {
    private final String bootstrapAddress;
    private final List<Waiter> waiters = new ArrayList<>();
    private @Nullable Deadline deadline;

    Question(String bootstrapAddress) {
      this.bootstrapAddress = bootstrapAddress;
    }

    void add(String engineId, Answer answer) {
      // The entry stays until the question ends: whether it has been told is the deadline's to say.
      Deadline patience =
          loop.schedule(
              WAIT_NANOS,
              () ->
                  answer.failed(
                      "bootstrap_addr="
                          + bootstrapAddress
                          + " has not answered within seconds="
                          + TimeUnit.NANOSECONDS.toSeconds(WAIT_NANOS)));
      waiters.add(new Waiter(engineId, answer, patience));
    }

    void end(@Nullable List<EngineAddresses> engines, @Nullable Throwable failure) {
      if (asked.remove(bootstrapAddress, this)) {
        if (deadline != null) {
          deadline.cancel();
        }
        answered(bootstrapAddress, waiters, engines, failure);
      }
    }
  }

  private void answered(
      String bootstrapAddress,
      List<Waiter> waiters,
      @Nullable List<EngineAddresses> engines,
      @Nullable Throwable failure) {
    Map<String, EngineAddresses> complete = new HashMap<>();
    List<String> seen = new ArrayList<>();
    if (engines != null) {
      for (EngineAddresses engine : engines) {
        seen.add(engine.engineId());
        if (engine.isComplete()) {
          complete.put(engine.engineId(), engine);
        }
      }
    }
    for (Waiter waiter : waiters) {
      EngineAddresses addresses = complete.get(waiter.engineId());
      if (addresses != null) {
        known.put(new Source(waiter.engineId(), bootstrapAddress), addresses);
      }
      if (!waiter.patience().isPending()) {
        continue;
      }
      waiter.patience().cancel();
      if (addresses != null) {
        loop.run(() -> waiter.answer().found(addresses));
      } else {
        String reason = reason(bootstrapAddress, waiter.engineId(), seen, failure);
        loop.run(() -> waiter.answer().failed(reason));
      }
    }
  }

  private static String reason(
      String bootstrapAddress, String engineId, List<String> seen, @Nullable Throwable failure) {
    if (failure != null) {
      Throwable cause = failure.getCause() != null ? failure.getCause() : failure;
      return "bootstrap_addr=" + bootstrapAddress + " gave no answer: " + cause.getMessage();
    }
    if (seen.contains(engineId)) {
      return "engine_id="
          + engineId
          + " has not all its ranks registered at bootstrap_addr="
          + bootstrapAddress
          + ": try again when it has started";
    }
    return "engine_id="
        + engineId
        + " is not registered at bootstrap_addr="
        + bootstrapAddress
        + ", registered="
        + seen
        + ": the prefiller has restarted or the address is another one's";
  }

  /** Takes what a caller needs as two lambdas. */
  public static Answer answer(Consumer<EngineAddresses> found, Consumer<String> failed) {
    return new Answer() {
      @Override
      public void found(EngineAddresses addresses) {
        found.accept(addresses);
      }

      @Override
      public void failed(String reason) {
        failed.accept(reason);
      }
    };
  }
}
