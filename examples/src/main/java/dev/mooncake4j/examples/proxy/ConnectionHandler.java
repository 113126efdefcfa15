package dev.mooncake4j.examples.proxy;

import dev.mooncake4j.connector.TraceContext;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.handler.timeout.IdleStateEvent;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One client's connection: one request at a time, those sent before the answer wait their turn.
 *
 * <p>The connection is read also while a request is served: that is how a client that goes away is
 * noticed before there is anything to write to it. Runs on the connection's event loop.
 */
@SuppressWarnings("FutureReturnValueIgnored")
final class ConnectionHandler extends SimpleChannelInboundHandler<FullHttpRequest> {
  private static final Logger LOG = LoggerFactory.getLogger(ConnectionHandler.class);

  private static final Set<String> SERVED = Set.of("/v1/completions", "/v1/chat/completions");
  private static final String MODELS = "/v1/models";
  private static final String HEALTH = "/health";
  private static final String TRACESTATE = "tracestate";
  private static final int MAX_PIPELINED = 8;

  /** Tells idle connections to close, and busy ones to close after their answer. */
  static final Object DRAIN = new Object();

  private final ProxyServer server;
  private final Queue<FullHttpRequest> pipelined = new ArrayDeque<>();
  private @Nullable UnderWay current;

  ConnectionHandler(ProxyServer server) {
    this.server = server;
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
    if (!request.decoderResult().isSuccess()) {
      refuse(context, new ProxyFailure(400, "not a request: " + request.decoderResult().cause()));
    } else if (current == null) {
      handle(context, request);
    } else if (pipelined.size() < MAX_PIPELINED) {
      pipelined.add(request.retain());
    } else {
      refuse(context, new ProxyFailure(400, "too many requests sent before their answers"));
    }
  }

  private void handle(ChannelHandlerContext context, FullHttpRequest request) {
    String path = new QueryStringDecoder(request.uri()).path();
    if (SERVED.contains(path)) {
      if (!request.method().equals(HttpMethod.POST)) {
        answer(context, request, new ProxyFailure(405, "method=" + request.method() + ": POST it"));
        return;
      }
      start(
          context,
          new Exchange(
              path,
              ByteBufUtil.getBytes(request.content()),
              passedOn(request),
              server.services(),
              answerTo(context, request)));
    } else if (path.equals(MODELS)) {
      if (!request.method().equals(HttpMethod.GET)) {
        answer(context, request, new ProxyFailure(405, "method=" + request.method() + ": GET it"));
        return;
      }
      start(
          context,
          new Lookup(path, passedOn(request), server.services(), answerTo(context, request)));
    } else if (path.equals(HEALTH) && request.method().equals(HttpMethod.GET)) {
      context.writeAndFlush(server.health());
    } else {
      answer(
          context,
          request,
          new ProxyFailure(404, "path=" + path + " is not served here: post to one of " + SERVED));
    }
  }

  private static void answer(
      ChannelHandlerContext context, FullHttpRequest request, ProxyFailure failure) {
    LOG.info(
        "method={} uri={} status={}",
        request.method(),
        request.uri().replaceAll("\\p{Cntrl}", " "),
        failure.status());
    context.writeAndFlush(NettyAnswer.response(failure));
  }

  private NettyAnswer answerTo(ChannelHandlerContext context, FullHttpRequest request) {
    return new NettyAnswer(
        context.channel(),
        request.protocolVersion().compareTo(HttpVersion.HTTP_1_1) >= 0,
        server.services().timeout(),
        server::isDraining);
  }

  private void start(ChannelHandlerContext context, UnderWay request) {
    current = request;
    boolean started =
        server.start(request, () -> context.executor().execute(() -> finished(context)));
    if (!started) {
      current = null;
      refuse(context, ProxyServer.stopping());
    }
  }

  /** What both servers get of the client's headers; a trace that is malformed is none. */
  private Map<String, String> passedOn(FullHttpRequest request) {
    Map<String, String> headers = new HashMap<>();
    String given = request.headers().get(HttpHeaderNames.AUTHORIZATION);
    String authorization = given != null ? given : server.ownAuthorization();
    if (authorization != null) {
      headers.put("Authorization", authorization);
    }
    List<String> traceparents = request.headers().getAll(Exchange.TRACEPARENT);
    if (traceparents.size() == 1 && TraceContext.parse(traceparents.getFirst()) != null) {
      headers.put(Exchange.TRACEPARENT, traceparents.getFirst());
      List<String> states = request.headers().getAll(TRACESTATE);
      if (!states.isEmpty()) {
        headers.put(TRACESTATE, String.join(",", states));
      }
    }
    return headers;
  }

  private void finished(ChannelHandlerContext context) {
    current = null;
    FullHttpRequest next = pipelined.poll();
    if (next != null) {
      try {
        handle(context, next);
      } finally {
        next.release();
      }
    } else if (server.isDraining()) {
      closeAfterWrites(context);
    }
  }

  /** An empty write behind what was written last: the answer is out when it is. */
  private static void closeAfterWrites(ChannelHandlerContext context) {
    context.channel().writeAndFlush(Unpooled.EMPTY_BUFFER).addListener(ChannelFutureListener.CLOSE);
  }

  private void refuse(ChannelHandlerContext context, ProxyFailure failure) {
    LOG.info("status={} outcome={}", failure.status(), failure.getMessage());
    if (current == null) {
      NettyAnswer.refuseAndClose(context.channel(), failure);
    } else {
      // In the middle of another's answer nothing can be said.
      context.close();
    }
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    UnderWay exchange = current;
    if (exchange != null) {
      exchange.clientGone();
    }
    pipelined.forEach(FullHttpRequest::release);
    pipelined.clear();
    context.fireChannelInactive();
  }

  @Override
  public void userEventTriggered(ChannelHandlerContext context, Object event) {
    boolean idle = event.equals(DRAIN) || event instanceof IdleStateEvent;
    if (idle && current == null) {
      context.close();
    }
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    LOG.debug("connection of a client failed", cause);
    context.close();
  }
}
