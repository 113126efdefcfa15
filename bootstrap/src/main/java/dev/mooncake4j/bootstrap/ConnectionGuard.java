package dev.mooncake4j.bootstrap;

import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.socket.DuplexChannel;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.ScheduledFuture;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Sees that no connection stays longer than it may, whatever its client does.
 *
 * <p>The first handler of a connection. A request must be complete within the request time-out,
 * counted from its first byte and not from its last, so that a client that sends a byte now and
 * then gains nothing; the same holds for taking the answer. Between requests the idle time-out
 * holds. When a connection ends with an error, what the client still sends is read and dropped for
 * a moment: closed at once, the kernel would send a reset and the client might never see the
 * answer.
 */
// A close or write that fails ends in channelInactive; nobody waits for its future.
@SuppressWarnings("FutureReturnValueIgnored")
final class ConnectionGuard extends ChannelInboundHandlerAdapter {

  /** How long, and how much, a client that was told to go may go on sending. */
  private static final Duration DRAIN_TIME = Duration.ofSeconds(1);

  private static final int DRAIN_BYTES = 1 << 20;

  /** Called when a request is not complete in time; some of it has come. */
  interface LateRequest {
    void requestIsLate();
  }

  private enum Phase {
    /** Nothing of the first request has come. */
    FRESH,
    /** Some of a request has come. */
    RECEIVING,
    /** The answer is being made; whoever makes it has a deadline. */
    ANSWERING,
    /** The answer is being written. */
    WRITING,
    /** Between two requests. */
    IDLE,
    /** The last answer is written. */
    DRAINING
  }

  private final Duration requestTimeout;
  private final Duration idleTimeout;
  private final LateRequest lateRequest;
  private Phase phase = Phase.FRESH;
  private int drained;
  private @Nullable ScheduledFuture<?> timer;
  private @Nullable ChannelHandlerContext context;

  ConnectionGuard(Duration requestTimeout, Duration idleTimeout, LateRequest lateRequest) {
    this.requestTimeout = requestTimeout;
    this.idleTimeout = idleTimeout;
    this.lateRequest = lateRequest;
  }

  @Override
  public void handlerAdded(ChannelHandlerContext ctx) {
    context = ctx;
    enter(Phase.FRESH, requestTimeout);
  }

  @Override
  public void handlerRemoved(ChannelHandlerContext ctx) {
    stopTimer();
    context = null;
  }

  @Override
  public void channelRead(ChannelHandlerContext ctx, Object message) {
    if (phase == Phase.DRAINING) {
      drained += message instanceof ByteBuf bytes ? bytes.readableBytes() : 0;
      ReferenceCountUtil.release(message);
      if (drained > DRAIN_BYTES) {
        ctx.close();
      }
      return;
    }
    receiving();
    ctx.fireChannelRead(message);
  }

  /** Something of a request is there. */
  void receiving() {
    if (phase == Phase.FRESH) {
      // The time-out that runs since the connection was opened goes on.
      phase = Phase.RECEIVING;
    } else if (phase == Phase.IDLE) {
      enter(Phase.RECEIVING, requestTimeout);
    }
  }

  /** The request is complete. */
  void answering() {
    enter(Phase.ANSWERING, null);
  }

  /** The answer is on its way. */
  void writing() {
    enter(Phase.WRITING, requestTimeout);
  }

  /** The answer is written, another request may come. */
  void idle() {
    enter(Phase.IDLE, idleTimeout);
  }

  /** The last answer is written: says so to the client, and closes when it has heard. */
  void drain() {
    ChannelHandlerContext ctx = context;
    if (ctx == null || phase == Phase.DRAINING) {
      return;
    }
    enter(Phase.DRAINING, DRAIN_TIME);
    if (ctx.channel() instanceof DuplexChannel duplex) {
      duplex.shutdownOutput();
    }
    ctx.channel().config().setAutoRead(true);
  }

  private void enter(Phase next, @Nullable Duration limit) {
    stopTimer();
    phase = next;
    ChannelHandlerContext ctx = context;
    if (limit != null && ctx != null) {
      timer = ctx.executor().schedule(this::expired, limit.toMillis(), TimeUnit.MILLISECONDS);
    }
  }

  private void stopTimer() {
    ScheduledFuture<?> running = timer;
    timer = null;
    if (running != null) {
      running.cancel(false);
    }
  }

  private void expired() {
    timer = null;
    ChannelHandlerContext ctx = context;
    if (ctx == null) {
      return;
    }
    if (phase == Phase.RECEIVING) {
      lateRequest.requestIsLate();
    } else {
      ctx.close();
    }
  }
}
