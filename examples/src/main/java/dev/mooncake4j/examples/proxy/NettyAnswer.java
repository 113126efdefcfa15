package dev.mooncake4j.examples.proxy;

import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.socket.SocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** An answer on a connection of Netty's; called from the exchange's own thread. */
// What a write that nobody waits for fails with ends in channelInactive.
@SuppressWarnings("FutureReturnValueIgnored")
final class NettyAnswer implements ClientAnswer {
  private static final int LINGER_SECONDS = 2;

  private final Channel channel;
  private final boolean chunks;
  private final Duration timeout;
  private final BooleanSupplier lastAnswer;
  private boolean begun;

  /**
   * An answer.
   *
   * @param chunks whether the client knows chunks (not with HTTP/1.0: the connection's end is the
   *     body's there)
   * @param timeout how long the client may take nothing
   * @param lastAnswer whether the connection is to end with this answer
   */
  NettyAnswer(Channel channel, boolean chunks, Duration timeout, BooleanSupplier lastAnswer) {
    this.channel = channel;
    this.chunks = chunks;
    this.timeout = timeout;
    this.lastAnswer = lastAnswer;
  }

  @Override
  public void begin(int status, @Nullable String contentType, long length, String requestId) {
    begun = true;
    HttpResponse head =
        new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(status));
    if (contentType != null) {
      head.headers().set(HttpHeaderNames.CONTENT_TYPE, contentType);
    }
    head.headers().set("X-Request-Id", requestId);
    if (length >= 0) {
      HttpUtil.setContentLength(head, length);
    } else if (chunks) {
      HttpUtil.setTransferEncodingChunked(head, true);
    }
    if (lastAnswer.getAsBoolean()) {
      HttpUtil.setKeepAlive(head, false);
    }
    channel.writeAndFlush(head);
  }

  @Override
  public void write(byte[] bytes, int length) throws IOException, InterruptedException {
    ChannelFuture written =
        channel.writeAndFlush(
            new DefaultHttpContent(Unpooled.wrappedBuffer(Arrays.copyOf(bytes, length))));
    if (!written.await(timeout.toMillis())) {
      throw new IOException("the client took nothing for " + timeout.toSeconds() + " s");
    }
    if (!written.isSuccess()) {
      throw new IOException("the client is gone", written.cause());
    }
  }

  @Override
  public void end() {
    channel.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT);
  }

  @Override
  public void cut() {
    channel.close();
  }

  @Override
  public void fail(ProxyFailure failure, String requestId) {
    if (begun) {
      cut();
      return;
    }
    FullHttpResponse response = response(failure);
    response.headers().set("X-Request-Id", requestId);
    if (lastAnswer.getAsBoolean()) {
      HttpUtil.setKeepAlive(response, false);
    }
    channel.writeAndFlush(response);
  }

  /** An error as a whole answer. */
  static FullHttpResponse response(ProxyFailure failure) {
    return json(failure.status(), failure.json());
  }

  /** JSON as a whole answer. */
  static FullHttpResponse json(int status, byte[] body) {
    FullHttpResponse response =
        new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(status), Unpooled.wrappedBuffer(body));
    response.headers().set(HttpHeaderNames.CONTENT_TYPE, "application/json");
    HttpUtil.setContentLength(response, body.length);
    return response;
  }

  /**
   * An error after which nothing more is heard on the connection. It stays open for a moment, for
   * the client to close: closed under a body that is still being sent, it would be reset, and the
   * error lost.
   */
  static void refuseAndClose(Channel channel, ProxyFailure failure) {
    FullHttpResponse response = response(failure);
    HttpUtil.setKeepAlive(response, false);
    // From below the keep-alive handler, which would close at once.
    channel
        .pipeline()
        .context(HttpServerKeepAliveHandler.class)
        .writeAndFlush(response)
        .addListener(
            written -> {
              ((SocketChannel) channel).shutdownOutput();
              channel.eventLoop().schedule(() -> channel.close(), LINGER_SECONDS, TimeUnit.SECONDS);
            });
  }
}
