package dev.mooncake4j.examples.jlama.server;

import io.netty.buffer.Unpooled;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** Whole answers. */
final class HttpAnswers {
  private HttpAnswers() {}

  static FullHttpResponse json(int status, JsonNode body, @Nullable String requestId) {
    FullHttpResponse response = text(status, "application/json", body.toString());
    if (requestId != null) {
      response.headers().set("X-Request-Id", requestId);
    }
    return response;
  }

  static FullHttpResponse text(int status, String type, String body) {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    FullHttpResponse response =
        new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1,
            HttpResponseStatus.valueOf(status),
            Unpooled.wrappedBuffer(bytes));
    response.headers().set(HttpHeaderNames.CONTENT_TYPE, type);
    HttpUtil.setContentLength(response, bytes.length);
    return response;
  }

  static FullHttpResponse error(BadRequest refused) {
    return json(
        refused.status(), error(refused.status(), String.valueOf(refused.getMessage())), null);
  }

  static ObjectNode error(int status, String message) {
    ObjectNode body = JsonMapper.shared().createObjectNode();
    ObjectNode error = body.putObject("error");
    error.put("message", message);
    error.put(
        "type",
        status == 404 ? "NotFoundError" : status < 500 ? "BadRequestError" : "InternalServerError");
    error.putNull("param");
    error.put("code", status);
    return body;
  }
}
