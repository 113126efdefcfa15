package dev.mooncake4j.examples.jlama.server;

import io.netty.buffer.ByteBufUtil;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.QueryStringDecoder;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * One client's connection: one request at a time. It is read also while one is answered, which is
 * how a client that goes away is noticed. Its state is the event loop's alone.
 */
@SuppressWarnings("FutureReturnValueIgnored")
final class HttpConnection extends SimpleChannelInboundHandler<FullHttpRequest> {
  private static final int LONGEST_ID = 128;

  private final Supplier<@Nullable CompletionService> services;
  private boolean busy;

  /** How many requests there were: what is told late of a former one is not of this. */
  private int requests;

  private boolean gone;
  private @Nullable String current;

  /**
   * A connection.
   *
   * @param services gives {@code null} while the model is being loaded
   */
  HttpConnection(Supplier<@Nullable CompletionService> services) {
    this.services = services;
  }

  @Override
  protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
    if (busy) {
      refuse(
          context.channel(),
          new BadRequest("a request was sent before the answer to the last one"));
      return;
    }
    if (!request.decoderResult().isSuccess()) {
      refuse(
          context.channel(), new BadRequest("not a request: " + request.decoderResult().cause()));
      return;
    }
    String path = new QueryStringDecoder(request.uri()).path();
    CompletionService service = services.get();
    try {
      if (service == null) {
        throw new BadRequest(503, "the model is being loaded");
      }
      switch (path) {
        case "/v1/completions" -> {
          require(request, HttpMethod.POST);
          complete(context, request, service);
        }
        case "/v1/models" -> {
          require(request, HttpMethod.GET);
          context.writeAndFlush(HttpAnswers.json(200, models(service), null));
        }
        case "/metrics" -> {
          require(request, HttpMethod.GET);
          context.writeAndFlush(
              HttpAnswers.text(
                  200, "text/plain; version=0.0.4; charset=utf-8", service.metrics().get()));
        }
        case "/health" -> {
          if (!request.method().equals(HttpMethod.HEAD)) {
            require(request, HttpMethod.GET);
          }
          boolean healthy = service.engine().isHealthy();
          context.writeAndFlush(HttpAnswers.text(healthy ? 200 : 503, "text/plain", ""));
        }
        default -> throw new BadRequest(404, "path=" + path + " is not served here");
      }
    } catch (BadRequest refused) {
      context.writeAndFlush(HttpAnswers.error(refused));
    }
  }

  private static void require(FullHttpRequest request, HttpMethod method) throws BadRequest {
    if (!request.method().equals(method)) {
      throw new BadRequest(405, "method=" + request.method() + ": use " + method);
    }
  }

  private void complete(
      ChannelHandlerContext context, FullHttpRequest request, CompletionService service) {
    busy = true;
    requests++;
    int which = requests;
    byte[] body = ByteBufUtil.getBytes(request.content());
    String clientId = clientId(request);
    Runnable onEnd = () -> context.executor().execute(this::ended);
    // Not on the event loop: a long prompt takes its time to be cut into tokens.
    Thread.ofVirtual()
        .name("completion")
        .start(
            () -> {
              try {
                String id = service.begin(context.channel(), body, clientId, onEnd);
                context.executor().execute(() -> begun(service, id, which));
              } catch (BadRequest refused) {
                // Ended first: the client may send the next request as soon as it has the answer.
                onEnd.run();
                context.writeAndFlush(HttpAnswers.error(refused));
              }
            });
  }

  private static @Nullable String clientId(FullHttpRequest request) {
    String id = request.headers().get("X-Request-Id");
    if (id == null || id.isEmpty()) {
      return null;
    }
    String printable = id.replaceAll("[^\\x21-\\x7e]", "_");
    return printable.substring(0, Math.min(LONGEST_ID, printable.length()));
  }

  private void begun(CompletionService service, String id, int which) {
    if (gone) {
      service.engine().cancel(id);
    } else if (busy && which == requests) {
      current = id;
    }
  }

  private void ended() {
    busy = false;
    current = null;
  }

  /** Answers a request that cannot be read with the last answer of the connection. */
  void refuse(Channel channel, BadRequest refused) {
    if (busy) {
      // In the middle of another's answer nothing can be said.
      channel.close();
      return;
    }
    LastAnswer.refuse(channel, refused);
  }

  private static ObjectNode models(CompletionService service) {
    ObjectNode body = JsonMapper.shared().createObjectNode();
    body.put("object", "list");
    ObjectNode model = body.putArray("data").addObject();
    model.put("id", service.modelName());
    model.put("object", "model");
    model.put("owned_by", "mooncake4j");
    model.put("max_model_len", service.engine().maxTokens());
    return body;
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    gone = true;
    CompletionService service = services.get();
    String id = current;
    if (service != null && id != null) {
      service.engine().cancel(id);
    }
    context.fireChannelInactive();
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    context.close();
  }
}
