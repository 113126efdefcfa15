package dev.mooncake4j.examples.proxy;

import io.netty.channel.ChannelHandlerContext;
import io.netty.handler.codec.http.HttpMessage;
import io.netty.handler.codec.http.HttpObjectAggregator;

/** Collects a request's body, and refuses one that is too long in the form that clients expect. */
final class BodyLimit extends HttpObjectAggregator {
  private final int maxBytes;

  BodyLimit(int maxBytes) {
    super(maxBytes, true);
    this.maxBytes = maxBytes;
  }

  @Override
  protected void handleOversizedMessage(ChannelHandlerContext context, HttpMessage oversized) {
    NettyAnswer.refuseAndClose(
        context.channel(), new ProxyFailure(413, "the body has more than bytes=" + maxBytes));
  }
}
