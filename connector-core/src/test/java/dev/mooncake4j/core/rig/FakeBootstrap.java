package dev.mooncake4j.core.rig;

import dev.mooncake4j.core.discovery.Bootstrap;
import dev.mooncake4j.core.discovery.EngineAddresses;
import dev.mooncake4j.core.discovery.RankRegistration;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;

/** A bootstrap client that answers when it is told to, or at once. Thread-safe. */
public final class FakeBootstrap implements Bootstrap {
  private final List<Question> open = new ArrayList<>();
  private final List<RankRegistration> registered = new ArrayList<>();
  private @Nullable List<EngineAddresses> always;
  private @Nullable RuntimeException queryFailure;
  private @Nullable RuntimeException registerFailure;
  private @Nullable CompletableFuture<Void> blocked;
  private List<EngineAddresses> lastKnown = List.of();
  private LookAnswer lookAnswer = LookAnswer.AS_KNOWN;
  private @Nullable CompletableFuture<RankRegistration> asyncRegistration;
  private int asked;
  private int looks;

  private record Question(String address, CompletableFuture<List<EngineAddresses>> answer) {}

  /** A client of a server that has not answered anything yet. */
  public FakeBootstrap() {}

  /** From now on it knows these engines and says so at once; {@code null} waits to be told. */
  public synchronized void answerAlways(@Nullable List<EngineAddresses> engines) {
    always = engines;
    if (engines != null) {
      lastKnown = engines;
    }
  }

  /** What a look comes to. */
  public enum LookAnswer {
    /** The engines that were told last. */
    AS_KNOWN,
    /** No engine. */
    NONE,
    /** No answer in time. */
    FAILED,
    /** Not even that. */
    NEVER
  }

  /** From now on looks come to this. */
  public synchronized void answerLooks(LookAnswer answer) {
    lookAnswer = answer;
  }

  /** Looks so far. */
  public synchronized int looks() {
    return looks;
  }

  @Override
  public synchronized CompletionStage<List<EngineAddresses>> look(
      String bootstrapAddress, Duration patience) {
    looks++;
    return switch (lookAnswer) {
      case AS_KNOWN -> CompletableFuture.completedStage(lastKnown);
      case NONE -> CompletableFuture.completedStage(List.of());
      case FAILED -> CompletableFuture.failedStage(new IllegalStateException("no answer"));
      case NEVER -> new CompletableFuture<>();
    };
  }

  /** From now on {@link #query} itself throws. */
  public synchronized void failQueries(@Nullable RuntimeException failure) {
    queryFailure = failure;
  }

  /** From now on {@link #register} throws; {@code null} ends it. */
  public synchronized void failRegistrations(@Nullable RuntimeException failure) {
    registerFailure = failure;
  }

  /** Answers every question that is open. */
  public void answer(EngineAddresses... engines) {
    synchronized (this) {
      lastKnown = List.of(engines);
    }
    for (Question question : takeOpen()) {
      question.answer().complete(List.of(engines));
    }
  }

  /** Fails every question that is open. */
  public void fail(Throwable failure) {
    for (Question question : takeOpen()) {
      question.answer().completeExceptionally(failure);
    }
  }

  private synchronized List<Question> takeOpen() {
    List<Question> taken = List.copyOf(open);
    open.clear();
    return taken;
  }

  /** Addresses of the questions that are open. */
  public synchronized List<String> openQuestions() {
    return open.stream().map(Question::address).toList();
  }

  /** Questions asked so far. */
  public synchronized int asked() {
    return asked;
  }

  /** Ranks registered now. */
  public synchronized List<RankRegistration> registered() {
    return List.copyOf(registered);
  }

  @Override
  public synchronized CompletionStage<List<EngineAddresses>> query(String bootstrapAddress) {
    asked++;
    if (queryFailure != null) {
      throw queryFailure;
    }
    if (always != null) {
      return CompletableFuture.completedStage(always);
    }
    Question question = new Question(bootstrapAddress, new CompletableFuture<>());
    open.add(question);
    return question.answer();
  }

  @Override
  public CompletionStage<List<EngineAddresses>> queryOwn(String bootstrapAddress) {
    return query(bootstrapAddress);
  }

  @Override
  public synchronized CompletionStage<RankRegistration> registerAsync(
      String bootstrapAddress, RankRegistration registration) {
    if (registerFailure != null) {
      return CompletableFuture.failedStage(registerFailure);
    }
    if (asyncRegistration != null) {
      return asyncRegistration;
    }
    registered.add(registration);
    return CompletableFuture.completedStage(registration);
  }

  /** From now on {@link #registerAsync} answers with this; {@code null} ends it. */
  public synchronized void answerRegistrations(
      @Nullable CompletableFuture<RankRegistration> answer) {
    asyncRegistration = answer;
  }

  /**
   * From now on {@link #register} stays until its thread is interrupted; completes when it is in.
   */
  public synchronized CompletableFuture<Void> blockRegistrations() {
    CompletableFuture<Void> entered = new CompletableFuture<>();
    blocked = entered;
    return entered;
  }

  @Override
  public void register(String bootstrapAddress, RankRegistration registration) {
    CompletableFuture<Void> entered;
    synchronized (this) {
      if (registerFailure != null) {
        throw registerFailure;
      }
      entered = blocked;
      if (entered == null) {
        registered.add(registration);
        return;
      }
    }
    entered.complete(null);
    try {
      new CountDownLatch(1).await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted", e);
    }
  }

  @Override
  public synchronized void deregister(String bootstrapAddress, RankRegistration registration) {
    registered.remove(registration);
  }

  @Override
  public void close() {}
}
