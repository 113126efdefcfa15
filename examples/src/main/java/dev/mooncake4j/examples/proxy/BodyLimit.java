package dev.mooncake4j.examples.proxy;

import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPipeline;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMessage;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpStatusClass;
import io.netty.handler.codec.http.HttpUtil;
import org.jspecify.annotations.Nullable;

/** Collects a request's body, and refuses one that is too long in the form that clients expect. */
final class BodyLimit extends HttpObjectAggregator {
  private static final int TOO_LARGE = 413;

  private final int maxBytes;

  BodyLimit(int maxBytes) {
    super(maxBytes, true);
    this.maxBytes = maxBytes;
  }

  /** A client that asks before it sends its body, and is told no, is told why. */
  @Override
  protected @Nullable Object newContinueResponse(
      HttpMessage start, int maxContentLength, ChannelPipeline pipeline) {
    String expected = start.headers().get(HttpHeaderNames.EXPECT);
    Object response = super.newContinueResponse(start, maxContentLength, pipeline);
    if (!(response instanceof FullHttpResponse plain)
        || plain.status().codeClass() != HttpStatusClass.CLIENT_ERROR) {
      return response;
    }
    int status = plain.status().code();
    plain.release();
    FullHttpResponse told =
        NettyAnswer.response(
            status == TOO_LARGE
                ? tooLarge()
                : new ProxyFailure(
                    status, "expect=" + expected + " is not served here: leave it out"));
    // The superclass closes the connection: a body may follow that nobody reads.
    HttpUtil.setKeepAlive(told, false);
    return told;
  }

  @Override
  protected void handleOversizedMessage(ChannelHandlerContext context, HttpMessage oversized) {
    NettyAnswer.refuseAndClose(context.channel(), tooLarge());
  }

  private ProxyFailure tooLarge() {
    return new ProxyFailure(TOO_LARGE, "the body has more than bytes=" + maxBytes);
  }
}
