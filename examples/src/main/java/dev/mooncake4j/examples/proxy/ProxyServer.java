package dev.mooncake4j.examples.proxy;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.timeout.IdleStateHandler;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * The listening socket, its connections, and the requests under way.
 *
 * <p>Netty faces the clients, since only it tells of a client that goes away while nothing is
 * written; each request is a virtual thread, on which waiting costs nothing.
 */
@SuppressWarnings("FutureReturnValueIgnored")
final class ProxyServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ProxyServer.class);

  private static final int IDLE_SECONDS = 75;
  private static final int CLOSE_SECONDS = 2;
  private static final Duration FIRST_ANSWERS = Duration.ofSeconds(5);

  private final ProxyOptions options;
  private final EngineDirectory directory;
  private final Backends backends;
  private final Exchange.Services services;
  private final MultiThreadIoEventLoopGroup loop;
  private final ChannelGroup connections =
      new DefaultChannelGroup(GlobalEventExecutor.INSTANCE, true);
  private final CountDownLatch closed = new CountDownLatch(1);

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition ended = lock.newCondition();
  private final Set<UnderWay> underWay = new HashSet<>();
  private volatile boolean draining;
  private @Nullable Channel listener;

  private ProxyServer(ProxyOptions options) {
    this.options = options;
    this.directory = new EngineDirectory(options.prefillers(), options.refresh(), options.secret());
    this.backends = new Backends(options.timeout());
    this.services =
        new Exchange.Services(
            new Rotation(directory, options.decoders()), directory, backends, options.timeout());
    this.loop =
        new MultiThreadIoEventLoopGroup(
            2, Thread.ofPlatform().name("proxy-", 0).daemon().factory(), NioIoHandler.newFactory());
  }

  /**
   * Asks the bootstrap servers once and listens; those that do not answer are asked on.
   *
   * @throws IOException if the port cannot be bound
   */
  static ProxyServer start(ProxyOptions options) throws IOException, InterruptedException {
    ProxyServer server = new ProxyServer(options);
    boolean started = false;
    try {
      server.directory.awaitFirst(FIRST_ANSWERS);
      server.listen();
      started = true;
      return server;
    } finally {
      if (!started) {
        server.close();
      }
    }
  }

  private void listen() throws IOException, InterruptedException {
    var bound =
        new ServerBootstrap()
            .group(loop)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_REUSEADDR, true)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    accept(channel);
                  }
                })
            .bind(new InetSocketAddress(options.host(), options.port()))
            .await();
    if (!bound.isSuccess()) {
      throw new IOException(
          "cannot listen on host="
              + options.host()
              + " port="
              + options.port()
              + ": "
              + bound.cause().getMessage()
              + "; give another --port or --host",
          bound.cause());
    }
    listener = bound.channel();
  }

  private void accept(SocketChannel channel) {
    connections.add(channel);
    channel
        .pipeline()
        .addLast(
            new IdleStateHandler(IDLE_SECONDS, 0, 0),
            new HttpServerCodec(),
            new HttpServerKeepAliveHandler(),
            new BodyLimit(options.maxBodyBytes()),
            new ConnectionHandler(this));
  }

  /** The port that is bound. */
  int port() {
    Channel channel = listener;
    if (channel == null) {
      throw new IllegalStateException("not listening");
    }
    return ((InetSocketAddress) channel.localAddress()).getPort();
  }

  Exchange.Services services() {
    return services;
  }

  boolean isDraining() {
    return draining;
  }

  /** The credentials for servers where a client brings none, as vLLM's example proxy sends them. */
  @Nullable String ownAuthorization() {
    String key = options.apiKey();
    return key == null ? null : "Bearer " + key;
  }

  static ProxyFailure stopping() {
    return new ProxyFailure(503, "the proxy is stopping");
  }

  /** Runs an exchange on a thread of its own; {@code false} if none is begun any more. */
  boolean start(UnderWay exchange, Runnable onEnd) {
    lock.lock();
    try {
      if (draining) {
        return false;
      }
      underWay.add(exchange);
    } finally {
      lock.unlock();
    }
    Thread.ofVirtual()
        .name("proxy-request-" + exchange.requestId())
        .start(
            () -> {
              try {
                exchange.run();
              } finally {
                end(exchange);
                onEnd.run();
              }
            });
    return true;
  }

  private void end(UnderWay exchange) {
    lock.lock();
    try {
      underWay.remove(exchange);
      ended.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Whether requests can be served, and how many servers there are. */
  FullHttpResponse health() {
    List<PrefillTarget> targets = directory.targets();
    boolean ready = !targets.isEmpty() && !draining;
    ObjectNode body = JsonMapper.shared().createObjectNode();
    body.put("status", draining ? "stopping" : ready ? "ok" : "no prefiller");
    body.put("prefill_instances", options.prefillers().size());
    body.put("prefill_ranks", targets.size());
    body.put("decode_instances", options.decoders().size());
    directory.problems().forEach(body.putArray("problems")::add);
    return NettyAnswer.json(ready ? 200 : 503, body.toString().getBytes(StandardCharsets.UTF_8));
  }

  /** Takes no more requests, lets those under way end for a while, and ends the rest. */
  @Override
  public void close() {
    List<UnderWay> left = drain();
    for (UnderWay exchange : left) {
      exchange.stop(stopping());
    }
    awaitEnds(TimeUnit.SECONDS.toNanos(CLOSE_SECONDS));
    connections.close().awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
    loop.shutdownGracefully(0, CLOSE_SECONDS, TimeUnit.SECONDS)
        .awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
    backends.close();
    directory.close();
    closed.countDown();
  }

  private List<UnderWay> drain() {
    lock.lock();
    try {
      draining = true;
    } finally {
      lock.unlock();
    }
    Channel channel = listener;
    if (channel != null) {
      channel.close().awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS);
    }
    connections.forEach(c -> c.pipeline().fireUserEventTriggered(ConnectionHandler.DRAIN));
    return awaitEnds(options.drain().toNanos());
  }

  /** Waits for the requests under way; returns those that are left. */
  private List<UnderWay> awaitEnds(long nanos) {
    lock.lock();
    try {
      long left = nanos;
      if (!underWay.isEmpty()) {
        LOG.info("stopping: requests under way={}", underWay.size());
      }
      while (!underWay.isEmpty() && left > 0) {
        left = ended.awaitNanos(left);
      }
      return List.copyOf(underWay);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return List.copyOf(underWay);
    } finally {
      lock.unlock();
    }
  }

  /** Waits until it is closed. */
  void awaitClosed() throws InterruptedException {
    closed.await();
  }
}
