package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.FinishReason;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * One answer, whole or as a stream of events, in the words of vLLM's server.
 *
 * <p>On the engine's thread: what is written goes into the channel's queue, whose length the
 * answer's number of tokens bounds.
 */
@SuppressWarnings("FutureReturnValueIgnored") // what a write fails with ends in channelInactive
final class CompletionAnswer implements GenerationListener {
  private final Channel channel;
  private final CompletionRequest request;
  private final String id;
  private final String modelName;
  private final LanguageModel model;
  private final Runnable onEnd;
  private final long created = System.currentTimeMillis() / 1000;
  private final TextStream text = new TextStream();
  private final StringBuilder whole = new StringBuilder();
  private final int[] answer;
  private int answerTokens;

  /**
   * An answer.
   *
   * @param onEnd called once, before the last of it is written: a client may ask again at once
   */
  CompletionAnswer(
      Channel channel,
      CompletionRequest request,
      String id,
      String modelName,
      LanguageModel model,
      Runnable onEnd) {
    this.channel = channel;
    this.request = request;
    this.id = id;
    this.modelName = modelName;
    this.model = model;
    this.onEnd = onEnd;
    this.answer = new int[request.maxTokens()];
  }

  @Override
  public void token(int token, @Nullable FinishReason end, int cachedTokens) {
    answer[answerTokens++] = token;
    if (end != null) {
      onEnd.run();
    }
    String piece = text.add(model.bytesOf(token));
    if (end != null) {
      piece += text.end();
    }
    if (request.stream()) {
      stream(piece, end, cachedTokens);
    } else {
      whole.append(piece);
      if (end != null) {
        ObjectNode body = body(whole.toString(), end, 0);
        body.set("usage", usage(cachedTokens));
        // As vLLM's with this connector: it has nothing to tell the other side.
        body.putNull("kv_transfer_params");
        channel.writeAndFlush(HttpAnswers.json(200, body, id));
      }
    }
  }

  private void stream(String piece, @Nullable FinishReason end, int cachedTokens) {
    if (answerTokens == 1) {
      HttpResponse head = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
      head.headers()
          .set(HttpHeaderNames.CONTENT_TYPE, "text/event-stream; charset=utf-8")
          .set("X-Request-Id", id);
      HttpUtil.setTransferEncodingChunked(head, true);
      channel.write(head);
    }
    event(body(piece, end, answerTokens - 1).toString());
    if (end != null) {
      if (request.includeUsage()) {
        ObjectNode last = head();
        last.putArray("choices");
        last.set("usage", usage(cachedTokens));
        event(last.toString());
      }
      event("[DONE]");
      channel.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT);
    }
  }

  private void event(String data) {
    byte[] bytes = ("data: " + data + "\n\n").getBytes(StandardCharsets.UTF_8);
    channel.writeAndFlush(new DefaultHttpContent(Unpooled.wrappedBuffer(bytes)));
  }

  @Override
  public void failed(String reason) {
    onEnd.run();
    if (answerTokens > 0 && request.stream()) {
      event(HttpAnswers.error(500, reason).toString());
      channel.close();
    } else {
      channel.writeAndFlush(HttpAnswers.json(500, HttpAnswers.error(500, reason), id));
    }
  }

  private ObjectNode head() {
    ObjectNode body = JsonMapper.shared().createObjectNode();
    body.put("id", id);
    body.put("object", "text_completion");
    body.put("created", created);
    body.put("model", modelName);
    return body;
  }

  /** The tokens from {@code firstToken} on. */
  private ObjectNode body(String piece, @Nullable FinishReason end, int firstToken) {
    ObjectNode body = head();
    ObjectNode choice = body.putArray("choices").addObject();
    choice.put("index", 0);
    choice.put("text", piece);
    choice.putNull("logprobs");
    if (end == null) {
      choice.putNull("finish_reason");
    } else {
      choice.put("finish_reason", end == FinishReason.STOP ? "stop" : "length");
    }
    choice.putNull("stop_reason");
    if (request.returnTokenIds()) {
      ids(choice.putArray("token_ids"), Arrays.copyOfRange(answer, firstToken, answerTokens));
      if (firstToken == 0) {
        ids(choice.putArray("prompt_token_ids"), request.prompt());
      }
    }
    return body;
  }

  private static void ids(ArrayNode list, int[] tokens) {
    for (int token : tokens) {
      list.add(token);
    }
  }

  private ObjectNode usage(int cachedTokens) {
    ObjectNode usage = JsonMapper.shared().createObjectNode();
    usage.put("prompt_tokens", request.prompt().length);
    usage.put("total_tokens", request.prompt().length + answerTokens);
    usage.put("completion_tokens", answerTokens);
    usage.putObject("prompt_tokens_details").put("cached_tokens", cachedTokens);
    return usage;
  }
}
