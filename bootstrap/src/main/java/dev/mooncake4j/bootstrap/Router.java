package dev.mooncake4j.bootstrap;

import dev.mooncake4j.bootstrap.WorkerRegistry.Occupied;
import dev.mooncake4j.bootstrap.WorkerRegistry.Outcome;
import dev.mooncake4j.bootstrap.WorkerRegistry.Refused;
import dev.mooncake4j.bootstrap.WorkerRegistry.Registered;
import dev.mooncake4j.connector.SharedSecret;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;
import tools.jackson.databind.node.StringNode;

/**
 * The endpoints: what each request is answered with.
 *
 * <p>{@code POST /register} and {@code GET /query} are vLLM's, in its statuses and words. {@code
 * POST /deregister} and {@code GET /health} are ours; vLLM's server answers them with 404.
 *
 * <p>Thread-safe, never blocks.
 */
final class Router {

  /** An answer, always JSON; immutable, the bytes too by agreement. */
  static final class Answer {
    private final int status;
    private final byte[] body;
    private final @Nullable Header header;

    private Answer(int status, byte[] body, @Nullable Header header) {
      this.status = status;
      this.body = body;
      this.header = header;
    }

    /** {@code {"detail": …}}, as FastAPI reports. */
    static Answer detail(int status, String detail) {
      return detail(status, JsonNodeFactory.instance.stringNode(detail), null);
    }

    private static Answer detail(int status, JsonNode detail, @Nullable Header header) {
      ObjectNode node = JsonNodeFactory.instance.objectNode();
      node.set("detail", detail);
      return new Answer(status, Json.bytes(node), header);
    }

    int status() {
      return status;
    }

    /** Not to be written to. */
    byte[] body() {
      return body;
    }

    /** A header beside the usual ones, {@code null} for none. */
    @Nullable Header header() {
      return header;
    }
  }

  /** A header of an answer. */
  record Header(String name, String value) {}

  /** The one method of each path. */
  private static final Map<String, String> METHODS =
      Map.of("/register", "POST", "/deregister", "POST", "/query", "GET", "/health", "GET");

  private static final Answer OK =
      new Answer(200, "{\"status\":\"ok\"}".getBytes(StandardCharsets.UTF_8), null);
  private static final Answer NOT_FOUND = Answer.detail(404, "Not Found");

  private static final Answer DRAINING =
      new Answer(200, "{\"status\":\"draining\"}".getBytes(StandardCharsets.UTF_8), null);

  /** Says nothing of what is wrong with the secret that came. */
  private static final Answer UNAUTHORIZED =
      Answer.detail(
          401,
          JsonNodeFactory.instance.stringNode(
              "this bootstrap server takes those alone who bring its shared secret, in the header"
                  + " 'Authorization: Bearer SECRET': set shared_secret or MOONCAKE4J_SHARED_SECRET"
                  + " to the server's"),
          new Header("WWW-Authenticate", "Bearer"));

  private final WorkerRegistry registry;
  private final Registrar registrar;
  private final @Nullable SharedSecret secret;

  /** The endpoints of a server that asks for this secret, or for none. */
  Router(WorkerRegistry registry, Registrar registrar, @Nullable SharedSecret secret) {
    this.registry = registry;
    this.registrar = registrar;
    this.secret = secret;
  }

  /**
   * Looks at a request's head alone: nothing more is read of one that may not come in.
   *
   * @param authorization the header, {@code null} if it is missing
   * @return the refusal, or {@code null} where the request may come in
   */
  @Nullable Answer refusal(String path, @Nullable String authorization) {
    SharedSecret asked = secret;
    return asked == null || path.equals("/health") || Bearer.matches(asked, authorization)
        ? null
        : UNAUTHORIZED;
  }

  /**
   * Answers a request.
   *
   * @param path decoded, without the query string
   * @param contentType the header, {@code null} if it is missing
   * @return complete at once unless a registration has to probe former workers
   */
  CompletableFuture<Answer> route(
      String method, String path, @Nullable String contentType, byte[] body) {
    String expected = METHODS.get(path);
    if (expected == null) {
      return CompletableFuture.completedFuture(NOT_FOUND);
    }
    if (!expected.equals(method)) {
      StringNode detail = JsonNodeFactory.instance.stringNode("Method Not Allowed");
      return CompletableFuture.completedFuture(
          Answer.detail(405, detail, new Header("Allow", expected)));
    }
    return switch (path) {
      case "/register" -> register(contentType, body);
      case "/deregister" -> CompletableFuture.completedFuture(deregister(contentType, body));
      case "/query" ->
          CompletableFuture.completedFuture(new Answer(200, registry.snapshot().json(), null));
      default -> CompletableFuture.completedFuture(registry.isDraining() ? DRAINING : OK);
    };
  }

  private CompletableFuture<Answer> register(@Nullable String contentType, byte[] body) {
    PayloadReader reader = new PayloadReader();
    PayloadReader.Worker worker = reader.read(body, contentType, true);
    if (worker == null || worker.addr() == null) {
      return CompletableFuture.completedFuture(unprocessable(reader));
    }
    RegisterRequest request =
        new RegisterRequest(
            worker.engineId(), worker.dpRank(), worker.tpRank(), worker.ppRank(), worker.addr());
    return registrar.register(request).thenApply(Router::answerTo);
  }

  private Answer deregister(@Nullable String contentType, byte[] body) {
    PayloadReader reader = new PayloadReader();
    PayloadReader.Worker worker = reader.read(body, contentType, false);
    if (worker == null) {
      return unprocessable(reader);
    }
    registry.deregister(
        worker.engineId(), worker.dpRank(), worker.tpRank(), worker.ppRank(), worker.addr());
    return OK;
  }

  private static Answer answerTo(Outcome outcome) {
    return switch (outcome) {
      case Registered r -> OK;
      case Refused refused ->
          Answer.detail(
              refused.status(),
              JsonNodeFactory.instance.stringNode(refused.detail()),
              refused.retryAfterSeconds() == 0
                  ? null
                  : new Header("Retry-After", String.valueOf(refused.retryAfterSeconds())));
      case Occupied occupied -> Answer.detail(400, occupied.detail());
    };
  }

  private static Answer unprocessable(PayloadReader reader) {
    return Answer.detail(422, reader.problems(), null);
  }
}
