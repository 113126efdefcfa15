package dev.mooncake4j.bootstrap;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow.Subscription;
import org.jspecify.annotations.Nullable;

/**
 * Takes an answer's body up to a limit, and hangs up at the first byte beyond it.
 *
 * <p>The JDK has such a subscriber, but fails with a plain {@link IOException}, as a lost
 * connection does; an answer that is too long must not be asked for again.
 */
final class LimitedBody implements BodySubscriber<byte[]> {

  /** The answer has more bytes than are read. */
  static final class TooLongException extends IOException {
    private static final long serialVersionUID = 1L;

    TooLongException(int limit) {
      super("the answer is longer than limit_bytes=" + limit);
    }
  }

  private final int limit;
  private final CompletableFuture<byte[]> body = new CompletableFuture<>();
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private @Nullable Subscription subscription;

  LimitedBody(int limit) {
    this.limit = limit;
  }

  @Override
  public CompletionStage<byte[]> getBody() {
    return body;
  }

  @Override
  public void onSubscribe(Subscription given) {
    subscription = given;
    given.request(Long.MAX_VALUE);
  }

  @Override
  public void onNext(List<ByteBuffer> buffers) {
    for (ByteBuffer buffer : buffers) {
      if (body.isDone()) {
        return;
      }
      if (buffer.remaining() > limit - bytes.size()) {
        Subscription running = subscription;
        if (running != null) {
          running.cancel();
        }
        body.completeExceptionally(new TooLongException(limit));
        return;
      }
      byte[] chunk = new byte[buffer.remaining()];
      buffer.get(chunk);
      bytes.writeBytes(chunk);
    }
  }

  @Override
  public void onError(Throwable failure) {
    body.completeExceptionally(failure);
  }

  @Override
  public void onComplete() {
    body.complete(bytes.toByteArray());
  }
}
