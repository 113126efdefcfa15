package dev.mooncake4j.examples.jlama.server;

import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.socket.DuplexChannel;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.util.ReferenceCountUtil;
import java.util.concurrent.TimeUnit;

/** An error that is the last answer on its connection. */
@SuppressWarnings("FutureReturnValueIgnored")
final class LastAnswer {
  private static final int LINGER_SECONDS = 2;

  private LastAnswer() {}

  /**
   * Answers, and hears no more. The connection stays open for a moment, for the client to close:
   * closed under a body that is still being sent, it would be reset, and the answer lost.
   */
  static void refuse(Channel channel, BadRequest refused) {
    FullHttpResponse response = HttpAnswers.error(refused);
    HttpUtil.setKeepAlive(response, false);
    channel.pipeline().addFirst(new Unheard());
    // From below the keep-alive handler, which would close at once.
    channel
        .pipeline()
        .context(HttpServerKeepAliveHandler.class)
        .writeAndFlush(response)
        .addListener(
            written -> {
              if (written.isSuccess()) {
                ((DuplexChannel) channel).shutdownOutput();
                channel
                    .eventLoop()
                    .schedule(() -> channel.close(), LINGER_SECONDS, TimeUnit.SECONDS);
              } else {
                channel.close();
              }
            });
  }

  /** What still comes is read and dropped. */
  private static final class Unheard extends ChannelInboundHandlerAdapter {
    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
      ReferenceCountUtil.release(message);
    }
  }
}
