package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.BootstrapException.Reason;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.HttpDecoderConfig;
import io.netty.handler.codec.http.HttpRequestDecoder;
import io.netty.handler.codec.http.HttpResponseEncoder;
import io.netty.handler.flow.FlowControlHandler;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The listening socket, its connections, and the one thread that serves them all.
 *
 * <p>One thread is enough: a request costs microseconds, and nothing on it blocks. The buffers come
 * from an allocator of the server's own, so that what is still in use can be counted.
 */
// A close or write that fails ends in channelInactive; nobody waits for its future.
@SuppressWarnings("FutureReturnValueIgnored")
final class HttpServer implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(HttpServer.class);

  private static final int MAX_LINE_BYTES = 4096;
  private static final int MAX_HEADER_BYTES = 16 * 1024;
  private static final int CLOSE_SECONDS = 2;

  private static final byte[] TOO_MANY =
      ("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n"
              + "content-length: 33\r\n\r\n{\"detail\":\"Too Many Connections\"}")
          .getBytes(StandardCharsets.US_ASCII);

  private final UnpooledByteBufAllocator buffers = new UnpooledByteBufAllocator(false);
  private final BootstrapServerConfig config;
  private final MultiThreadIoEventLoopGroup loop;
  private final ChannelGroup connections;
  private final LongAdder unexpectedErrors = new LongAdder();

  private volatile boolean closing;
  private int port;

  HttpServer(BootstrapServerConfig config) {
    this.config = config;
    this.loop =
        new MultiThreadIoEventLoopGroup(
            1,
            task -> {
              Thread thread = new Thread(task, "m4j-bootstrap-server");
              thread.setDaemon(true);
              return thread;
            },
            NioIoHandler.newFactory());
    this.connections = new DefaultChannelGroup(loop.next(), true);
  }

  /** The server's thread, for deadlines; rejects when the server is closed. */
  ScheduledExecutorService timer() {
    return loop;
  }

  /**
   * Binds the port; when this returns, connections are accepted. Called once.
   *
   * @throws BootstrapException with {@link Reason#BIND}; the server is closed then
   */
  void bind(Router router) {
    ServerBootstrap bootstrap =
        new ServerBootstrap()
            .group(loop)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_REUSEADDR, true)
            .option(ChannelOption.SO_BACKLOG, 256)
            .option(ChannelOption.ALLOCATOR, buffers)
            .childOption(ChannelOption.ALLOCATOR, buffers)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    accept(channel, router);
                  }
                });
    Channel channel;
    try {
      channel =
          bootstrap.bind(new InetSocketAddress(config.host(), config.port())).sync().channel();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      close();
      throw notBound("interrupted while binding", e);
    } catch (Exception e) {
      // Netty rethrows what the bind failed with, checked or not.
      close();
      throw notBound("cannot bind", e);
    }
    connections.add(channel);
    port = ((InetSocketAddress) channel.localAddress()).getPort();
  }

  private BootstrapException notBound(String what, Exception cause) {
    String address = new HostPort(config.host(), config.port()).authority();
    return new BootstrapException(
        cause instanceof InterruptedException ? Reason.INTERRUPTED : Reason.BIND,
        "bootstrap server: "
            + what
            + " address="
            + address
            + ": "
            + ErrorText.describe(cause)
            + "; is another instance running there? give each instance its own port"
            + " (VLLM_MOONCAKE_BOOTSTRAP_PORT)",
        address,
        0,
        0,
        cause);
  }

  private void accept(SocketChannel channel, Router router) {
    // The listening channel is one of the group.
    if (closing || connections.size() > config.maxConnections()) {
      log.debug("connection refused, too many are open: limit={}", config.maxConnections());
      channel
          .writeAndFlush(Unpooled.wrappedBuffer(TOO_MANY))
          .addListener(ChannelFutureListener.CLOSE);
      return;
    }
    connections.add(channel);
    serve(channel.pipeline(), config, router, unexpectedErrors);
  }

  /**
   * Gives a connection its handlers.
   *
   * @param unexpectedErrors counts what no client should be able to cause
   */
  static void serve(
      ChannelPipeline pipeline,
      BootstrapServerConfig config,
      Router router,
      LongAdder unexpectedErrors) {
    RequestDecoder decoder = new RequestDecoder();
    RequestHandler requests = new RequestHandler(router, decoder::hasBytes, unexpectedErrors);
    ConnectionGuard guard =
        new ConnectionGuard(config.requestTimeout(), config.idleTimeout(), requests);
    requests.guardedBy(guard);
    pipeline.addLast(guard, decoder, new HttpResponseEncoder(), new FlowControlHandler(), requests);
  }

  /** Knows whether some of a request is there. */
  private static final class RequestDecoder extends HttpRequestDecoder {
    RequestDecoder() {
      super(
          new HttpDecoderConfig()
              .setMaxInitialLineLength(MAX_LINE_BYTES)
              .setMaxHeaderSize(MAX_HEADER_BYTES));
    }

    boolean hasBytes() {
      return actualReadableBytes() > 0;
    }
  }

  /** The port that is bound. */
  int port() {
    return port;
  }

  /** Bytes of buffers in use: 0 when no request is under way. */
  long bufferBytesInUse() {
    return buffers.metric().usedHeapMemory() + buffers.metric().usedDirectMemory();
  }

  /** Errors on connections that no client should be able to cause. */
  long unexpectedErrors() {
    return unexpectedErrors.sum();
  }

  /** Closes the port and all connections, and ends the thread; at most some seconds. Idempotent. */
  @Override
  public void close() {
    closing = true;
    connections.close().awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
    loop.shutdownGracefully(0, CLOSE_SECONDS, TimeUnit.SECONDS)
        .awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
  }
}
