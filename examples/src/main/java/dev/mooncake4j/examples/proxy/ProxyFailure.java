package dev.mooncake4j.examples.proxy;

import java.nio.charset.StandardCharsets;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** Why a request is not served, as its client is told: an HTTP status and OpenAI's error object. */
final class ProxyFailure extends Exception {
  private static final long serialVersionUID = 1L;

  private final int status;

  ProxyFailure(int status, String message) {
    super(message);
    this.status = status;
  }

  int status() {
    return status;
  }

  /** The error object that OpenAI's clients read, with the names that vLLM gives its types. */
  byte[] json() {
    ObjectNode error = JsonMapper.shared().createObjectNode();
    error
        .putObject("error")
        .put("message", getMessage())
        .put("type", type(status))
        .putNull("param")
        .put("code", status);
    return error.toString().getBytes(StandardCharsets.UTF_8);
  }

  private static String type(int status) {
    return switch (status) {
      case 404 -> "NotFoundError";
      case 405 -> "MethodNotAllowedError";
      case 413 -> "RequestTooLargeError";
      case 502 -> "BadGatewayError";
      case 503 -> "ServiceUnavailableError";
      case 504 -> "GatewayTimeoutError";
      default -> status < 500 ? "BadRequestError" : "InternalServerError";
    };
  }
}
