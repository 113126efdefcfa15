package dev.mooncake4j.examples.jlama.server;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpMessage;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpUtil;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The listening socket and its connections. */
@SuppressWarnings("FutureReturnValueIgnored")
final class HttpServer implements AutoCloseable {
  private static final int MAX_BODY_BYTES = 1 << 20;
  private static final int CLOSE_SECONDS = 2;

  private final MultiThreadIoEventLoopGroup loop;
  private final Channel listener;
  private volatile @Nullable CompletionService service;

  /**
   * Listens; every request is answered with 503 until {@link #serve}.
   *
   * @throws IOException if the port cannot be bound
   */
  HttpServer(String host, int port) throws IOException {
    loop =
        new MultiThreadIoEventLoopGroup(
            1, Thread.ofPlatform().name("http-", 0).daemon().factory(), NioIoHandler.newFactory());
    ChannelFuture bound =
        new ServerBootstrap()
            .group(loop)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_REUSEADDR, true)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    channel
                        .pipeline()
                        .addLast(
                            new HttpServerCodec(),
                            new HttpServerKeepAliveHandler(),
                            new Bodies(),
                            new HttpConnection(() -> service));
                  }
                })
            .bind(new InetSocketAddress(host, port))
            .awaitUninterruptibly();
    if (!bound.isSuccess()) {
      loop.shutdownGracefully(0, CLOSE_SECONDS, TimeUnit.SECONDS);
      throw new IOException(
          "cannot listen on host="
              + host
              + " port="
              + port
              + ": "
              + bound.cause().getMessage()
              + "; give another --port or --host",
          bound.cause());
    }
    listener = bound.channel();
  }

  /** From now on requests are served. */
  void serve(CompletionService completions) {
    service = completions;
  }

  /** The port that is bound. */
  int port() {
    return ((InetSocketAddress) listener.localAddress()).getPort();
  }

  @Override
  public void close() {
    listener.close().awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
    loop.shutdownGracefully(0, CLOSE_SECONDS, TimeUnit.SECONDS)
        .awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
  }

  /** Whole bodies, up to the limit; one that is longer is refused with the reason. */
  private static final class Bodies extends HttpObjectAggregator {
    Bodies() {
      super(MAX_BODY_BYTES, true);
    }

    /** A client that asks before it sends its body, and is told no, is told why. */
    @Override
    protected @Nullable Object newContinueResponse(
        HttpMessage start, int maxContentLength, ChannelPipeline pipeline) {
      Object response = super.newContinueResponse(start, maxContentLength, pipeline);
      if (!(response instanceof FullHttpResponse plain)
          || !plain.status().equals(HttpResponseStatus.REQUEST_ENTITY_TOO_LARGE)) {
        return response;
      }
      FullHttpResponse told = HttpAnswers.error(tooLong());
      plain.release();
      // The superclass closes the connection: a body may follow that nobody reads.
      HttpUtil.setKeepAlive(told, false);
      return told;
    }

    @Override
    protected void handleOversizedMessage(ChannelHandlerContext context, HttpMessage oversized) {
      context.pipeline().get(HttpConnection.class).refuse(context.channel(), tooLong());
    }

    private static BadRequest tooLong() {
      return new BadRequest(413, "the body has more than bytes=" + MAX_BODY_BYTES);
    }
  }
}
