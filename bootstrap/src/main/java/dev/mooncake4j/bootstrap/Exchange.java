package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import dev.mooncake4j.bootstrap.LimitedBody.TooLongException;
import dev.mooncake4j.bootstrap.QueryJson.MalformedAnswerException;
import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * One question to a bootstrap server, asked until it is answered or the attempts are used up.
 *
 * <p>What keeps an answer from coming (refused, reset, closed half-way, late) is tried again after
 * a pause. An answer that has come is final, also one that says no. No thread waits meanwhile.
 *
 * @param <T> what the answer's body is read as
 */
final class Exchange<T> {

  /** Reads the body of a 2xx answer. */
  interface Reader<T> {
    T read(byte[] body) throws MalformedAnswerException;
  }

  /**
   * The question.
   *
   * @param name what it is called in messages
   * @param attempts how often it is asked at most
   * @param timeout for each attempt
   * @param pause before the attempt of this number, from 2
   */
  record Question<T>(
      String name,
      HttpRequest request,
      Reader<T> reader,
      int attempts,
      Duration timeout,
      IntFunction<Duration> pause) {}

  private static final int UNAUTHORIZED = 401;

  private final Question<T> question;
  private final HttpClient http;
  private final Executor executor;
  private final Delayer delayer;
  private final LongSupplier nanoTime;
  private final long startedNanos;
  private final CompletableFuture<T> result = new CompletableFuture<>();

  private volatile Runnable cancelCurrent = () -> {};

  Exchange(
      Question<T> question,
      HttpClient http,
      Executor executor,
      Delayer delayer,
      LongSupplier nanoTime) {
    this.question = question;
    this.http = http;
    this.executor = executor;
    this.delayer = delayer;
    this.nanoTime = nanoTime;
    this.startedNanos = nanoTime.getAsLong();
  }

  /** The answer; completes on a thread of the client's, or on the one that calls it off. */
  CompletableFuture<T> result() {
    return result;
  }

  void start() {
    attempt(1);
  }

  /** Calls it off; without effect where there is an answer. */
  void fail(BootstrapException failure) {
    result.completeExceptionally(failure);
    cancelCurrent.run();
  }

  private void attempt(int number) {
    if (result.isDone()) {
      return;
    }
    CompletableFuture<HttpResponse<byte[]>> sent;
    try {
      sent = http.sendAsync(question.request(), head -> new LimitedBody(Json.MAX_ANSWER_BYTES));
    } catch (RuntimeException e) {
      // The JDK refuses a request that it cannot send, and throws when its client is shut down.
      result.completeExceptionally(unreachable(number, e));
      return;
    }
    CompletableFuture<HttpResponse<byte[]>> settled = new CompletableFuture<>();
    Runnable stopTimer =
        delayer.after(
            question.timeout(),
            () -> {
              settled.completeExceptionally(
                  new HttpTimeoutException(
                      "no answer within timeout_ms=" + question.timeout().toMillis()));
              sent.cancel(true);
            });
    cancelCurrent =
        () -> {
          stopTimer.run();
          sent.cancel(true);
        };
    whenDone(
        sent,
        (response, failure) -> {
          if (response != null) {
            settled.complete(response);
          } else {
            settled.completeExceptionally(
                failure != null ? failure : new IOException("no answer and no failure"));
          }
        });
    whenDone(
        settled,
        (response, failure) -> {
          stopTimer.run();
          onExecutor(() -> settle(number, response, failure));
        });
    if (result.isDone()) {
      // Called off before this attempt could be.
      cancelCurrent.run();
    }
  }

  /** Runs an action when the stage is complete; what the action throws is lost, so it must not. */
  static <R> void whenDone(
      CompletionStage<R> stage,
      BiConsumer<? super @Nullable R, ? super @Nullable Throwable> action) {
    stage.whenComplete(action);
  }

  /** Callers' code hangs on the result: it runs on the client's pool, never on the timer. */
  private void onExecutor(Runnable task) {
    try {
      executor.execute(task);
    } catch (RejectedExecutionException e) {
      // Closing: the result has failed, or does so now.
      task.run();
    }
  }

  private void settle(
      int number, @Nullable HttpResponse<byte[]> response, @Nullable Throwable failure) {
    if (result.isDone()) {
      return;
    }
    if (response != null) {
      answered(number, response);
      return;
    }
    Throwable cause =
        failure instanceof CompletionException && failure.getCause() != null
            ? failure.getCause()
            : failure;
    if (cause instanceof TooLongException) {
      result.completeExceptionally(malformed(number, String.valueOf(cause.getMessage()), cause));
    } else if (cause instanceof IOException && number < question.attempts()) {
      cancelCurrent = delayer.after(question.pause().apply(number + 1), () -> attempt(number + 1));
    } else {
      result.completeExceptionally(unreachable(number, cause));
    }
  }

  private void answered(int number, HttpResponse<byte[]> response) {
    int status = response.statusCode();
    if (status < 200 || status > 299) {
      result.completeExceptionally(
          new BootstrapException(
              Reason.REJECTED,
              question.name()
                  + " refused: url="
                  + question.request().uri()
                  + ", status="
                  + status
                  + ", attempts="
                  + number
                  + ", detail="
                  + ErrorText.detail(response.body())
                  + (status == UNAUTHORIZED ? advice() : ""),
              question.request().uri().toString(),
              number,
              status,
              null));
      return;
    }
    try {
      result.complete(question.reader().read(response.body()));
    } catch (MalformedAnswerException e) {
      result.completeExceptionally(malformed(number, String.valueOf(e.getMessage()), e));
    }
  }

  /** What to do where the server asks for another secret; the secret itself is never told. */
  private String advice() {
    return question.request().headers().firstValue("Authorization").isPresent()
        ? "; the shared_secret set here is not the server's: set the same on both"
        : "; no shared_secret is set here: set the server's";
  }

  private BootstrapException unreachable(int attempts, @Nullable Throwable cause) {
    long elapsed = TimeUnit.NANOSECONDS.toMillis(nanoTime.getAsLong() - startedNanos);
    return new BootstrapException(
        Reason.UNREACHABLE,
        question.name()
            + " failed: url="
            + question.request().uri()
            + ", attempts="
            + attempts
            + ", elapsed_ms="
            + elapsed
            + ", cause="
            + (cause == null ? "unknown" : ErrorText.describe(cause))
            + "; check that the bootstrap server runs and that this host reaches it",
        question.request().uri().toString(),
        attempts,
        0,
        cause);
  }

  private BootstrapException malformed(int attempts, String why, Throwable cause) {
    return new BootstrapException(
        Reason.MALFORMED,
        question.name()
            + " got no usable answer: url="
            + question.request().uri()
            + ", attempts="
            + attempts
            + ": "
            + why
            + "; is this a bootstrap server?",
        question.request().uri().toString(),
        attempts,
        0,
        cause);
  }
}
