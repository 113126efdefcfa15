package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.Router.Answer;
import dev.mooncake4j.bootstrap.Router.Header;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.DecoderResult;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaderValues;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.handler.codec.http.TooLongHttpHeaderException;
import io.netty.handler.codec.http.TooLongHttpLineException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One connection's requests: one is read and answered before the next is looked at, so pipelined
 * requests are answered in order and a client that does not read its answers is not read either.
 *
 * <p>An error of the protocol is answered and ends the connection. An upgrade offer is not heard.
 * All methods run on the connection's event loop.
 */
// A close or write that fails ends in channelInactive; nobody waits for its future.
@SuppressWarnings("FutureReturnValueIgnored")
final class RequestHandler extends SimpleChannelInboundHandler<HttpObject>
    implements ConnectionGuard.LateRequest {
  private static final Logger log = LoggerFactory.getLogger(RequestHandler.class);

  /** A registration has some 200 bytes; this leaves room for any that is meant seriously. */
  static final int MAX_BODY_BYTES = 64 * 1024;

  private final Router router;
  private final BooleanSupplier moreHasCome;
  private final LongAdder unexpectedErrors;
  private @Nullable ConnectionGuard guard;
  private @Nullable ChannelHandlerContext context;

  /** The request being read; {@code null} between requests and while one is answered. */
  private @Nullable HttpRequest request;

  private ByteArrayOutputStream body = new ByteArrayOutputStream(0);

  /** Whether the last answer has been given: what comes now is not heard. */
  private boolean ended;

  /**
   * A handler for one connection.
   *
   * @param moreHasCome whether bytes of a further request have come already
   * @param unexpectedErrors counts what no client should be able to cause
   */
  RequestHandler(Router router, BooleanSupplier moreHasCome, LongAdder unexpectedErrors) {
    this.router = router;
    this.moreHasCome = moreHasCome;
    this.unexpectedErrors = unexpectedErrors;
  }

  void guardedBy(ConnectionGuard connectionGuard) {
    this.guard = connectionGuard;
  }

  private ConnectionGuard guard() {
    ConnectionGuard present = guard;
    if (present == null) {
      throw new IllegalStateException("connection has no guard");
    }
    return present;
  }

  @Override
  public void handlerAdded(ChannelHandlerContext ctx) {
    context = ctx;
  }

  @Override
  protected void channelRead0(ChannelHandlerContext ctx, HttpObject message) {
    if (ended) {
      return;
    }
    DecoderResult result = message.decoderResult();
    if (result.isFailure()) {
      refuse(ctx, refusalOf(result.cause()));
      return;
    }
    if (message instanceof HttpRequest head && !begin(ctx, head)) {
      return;
    }
    if (message instanceof HttpContent content && request != null) {
      if (append(ctx, content.content()) && message instanceof LastHttpContent) {
        HttpRequest complete = request;
        request = null;
        answer(ctx, complete);
      }
    }
  }

  private boolean begin(ChannelHandlerContext ctx, HttpRequest head) {
    guard().receiving();
    HttpVersion version = head.protocolVersion();
    if (version.majorVersion() != 1) {
      refuse(ctx, Answer.detail(505, "HTTP Version Not Supported"));
      return false;
    }
    Answer refusal =
        router.refusal(pathOf(head), head.headers().get(HttpHeaderNames.AUTHORIZATION));
    if (refusal != null) {
      refuse(ctx, refusal);
      return false;
    }
    if (HttpUtil.getContentLength(head, 0L) > MAX_BODY_BYTES) {
      refuse(ctx, tooLarge());
      return false;
    }
    request = head;
    body = new ByteArrayOutputStream(256);
    if (HttpUtil.is100ContinueExpected(head)) {
      ctx.writeAndFlush(
          new DefaultFullHttpResponse(
              HttpVersion.HTTP_1_1, HttpResponseStatus.CONTINUE, Unpooled.EMPTY_BUFFER));
    }
    return true;
  }

  private boolean append(ChannelHandlerContext ctx, ByteBuf bytes) {
    int length = bytes.readableBytes();
    if (body.size() + length > MAX_BODY_BYTES) {
      refuse(ctx, tooLarge());
      return false;
    }
    try {
      bytes.readBytes(body, length);
    } catch (IOException e) {
      throw new IllegalStateException("a stream in memory failed", e);
    }
    return true;
  }

  private void answer(ChannelHandlerContext ctx, HttpRequest complete) {
    // What is there of the next request waits in the handler before this one, the rest in the
    // kernel.
    ctx.channel().config().setAutoRead(false);
    guard().answering();
    CompletableFuture<Answer> made =
        router.route(
            complete.method().name(),
            pathOf(complete),
            complete.headers().get(HttpHeaderNames.CONTENT_TYPE),
            body.toByteArray());
    body = new ByteArrayOutputStream(0);
    if (made.isDone()) {
      write(ctx, complete, made.join());
      return;
    }
    made.whenComplete(
        (answer, failure) -> {
          try {
            ctx.executor()
                .execute(
                    () -> {
                      if (answer != null) {
                        write(ctx, complete, answer);
                      } else {
                        exceptionCaught(ctx, failure);
                      }
                    });
          } catch (RejectedExecutionException e) {
            log.debug("answer dropped, the server is closed: channel={}", ctx.channel());
          }
        });
  }

  private static String pathOf(HttpRequest head) {
    try {
      return new QueryStringDecoder(head.uri()).path();
    } catch (IllegalArgumentException e) {
      // A percent sign without its two digits: no path of ours.
      return "";
    }
  }

  private void write(ChannelHandlerContext ctx, HttpRequest answered, Answer answer) {
    boolean keepAlive = HttpUtil.isKeepAlive(answered);
    ChannelFuture written =
        ctx.writeAndFlush(
            response(answer, keepAlive, HttpMethod.HEAD.equals(answered.method()), answered));
    if (!written.isDone()) {
      guard().writing();
    }
    written.addListener(
        done -> {
          if (!done.isSuccess()) {
            ctx.close();
          } else if (keepAlive) {
            guard().idle();
            if (moreHasCome.getAsBoolean()) {
              guard().receiving();
            }
            ctx.channel().config().setAutoRead(true);
          } else {
            ended = true;
            guard().drain();
          }
        });
  }

  /** Answers a request that is not served, and ends the connection. */
  private void refuse(ChannelHandlerContext ctx, Answer answer) {
    ended = true;
    request = null;
    body = new ByteArrayOutputStream(0);
    ctx.channel().config().setAutoRead(false);
    guard().writing();
    ctx.writeAndFlush(response(answer, false, false, null))
        .addListener(
            done -> {
              if (done.isSuccess()) {
                guard().drain();
              } else {
                ctx.close();
              }
            });
  }

  @Override
  public void requestIsLate() {
    ChannelHandlerContext ctx = context;
    if (ctx != null) {
      refuse(ctx, Answer.detail(408, "Request Timeout"));
    }
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) {
    if (cause instanceof IOException) {
      log.debug("connection lost: channel={}", ctx.channel(), cause);
    } else {
      unexpectedErrors.increment();
      log.warn("connection closed after an unexpected error: channel={}", ctx.channel(), cause);
    }
    ctx.close();
  }

  private static Answer tooLarge() {
    return Answer.detail(413, "Content Too Large: limit_bytes=" + MAX_BODY_BYTES);
  }

  private static Answer refusalOf(Throwable cause) {
    if (cause instanceof TooLongHttpLineException) {
      return Answer.detail(414, "URI Too Long");
    }
    if (cause instanceof TooLongHttpHeaderException) {
      return Answer.detail(431, "Request Header Fields Too Large");
    }
    return Answer.detail(400, "Invalid HTTP request received.");
  }

  private static FullHttpResponse response(
      Answer answer, boolean keepAlive, boolean headersOnly, @Nullable HttpRequest answered) {
    FullHttpResponse response =
        new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1,
            HttpResponseStatus.valueOf(answer.status()),
            headersOnly ? Unpooled.EMPTY_BUFFER : Unpooled.wrappedBuffer(answer.body()));
    response
        .headers()
        .set(HttpHeaderNames.CONTENT_LENGTH, answer.body().length)
        .set(HttpHeaderNames.CONTENT_TYPE, HttpHeaderValues.APPLICATION_JSON);
    Header header = answer.header();
    if (header != null) {
      response.headers().set(header.name(), header.value());
    }
    if (!keepAlive) {
      response.headers().set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
    } else if (answered != null && answered.protocolVersion().minorVersion() == 0) {
      response.headers().set(HttpHeaderNames.CONNECTION, HttpHeaderValues.KEEP_ALIVE);
    }
    return response;
  }
}
