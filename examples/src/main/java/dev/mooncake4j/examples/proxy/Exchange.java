package dev.mooncake4j.examples.proxy;

import dev.mooncake4j.connector.TraceContext;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * One request: both servers are asked at once, as the decoder can wait for its blocks, and what the
 * decoder says goes to the client as it comes.
 *
 * <p>Nothing of a stream is passed on before the prefill has succeeded: until then the decoder has
 * nothing to say, and a prefill that fails can still be told with its status. Whatever ends the
 * request (a failure of either server, the client's leaving, a deadline, the proxy's stop) cancels
 * what is left of the two requests; a server notices its connection's end and gives the request up.
 *
 * <p>Runs on a thread of its own; {@link #stop} may be called from any.
 */
final class Exchange implements UnderWay {
  private static final Logger LOG = LoggerFactory.getLogger(Exchange.class);

  private static final int CHUNK_BYTES = 16 * 1024;
  private static final int MAX_ERROR_BYTES = 64 * 1024;

  /** Header and parameter of the trace that a request is in. */
  static final String TRACEPARENT = "traceparent";

  private static final String EVENTS = "text/event-stream";

  private final String path;
  private final byte[] body;
  private final Map<String, String> passedOn;
  private final Services services;
  private final ClientAnswer client;

  private final String requestId = UUID.randomUUID().toString();
  private final CompletableFuture<HttpResponse<InputStream>> answer = new CompletableFuture<>();
  private final AtomicReference<@Nullable ProxyFailure> stopped = new AtomicReference<>();
  private final Map<String, Object> told = new LinkedHashMap<>();
  private volatile @Nullable InputStream relayed;
  private volatile long prefillMillis = -1;
  private volatile String outcome = "under way";

  /** What every exchange uses. */
  record Services(
      Rotation rotation, EngineDirectory directory, Backends backends, Duration timeout) {}

  /**
   * An exchange that has not begun.
   *
   * @param passedOn headers of the client's that both servers get
   */
  Exchange(
      String path,
      byte[] body,
      Map<String, String> passedOn,
      Services services,
      ClientAnswer client) {
    this.path = path;
    this.body = body;
    this.passedOn = passedOn;
    this.services = services;
    this.client = client;
  }

  @Override
  public String requestId() {
    return requestId;
  }

  /** How it ended, in a few words, as the log tells it. */
  String outcome() {
    return outcome;
  }

  /** Ends it, from any thread; both servers are told. The first reason stays. */
  @Override
  public void stop(ProxyFailure why) {
    if (stopped.compareAndSet(null, why)) {
      answer.completeExceptionally(why);
      close(relayed);
    }
  }

  @Override
  public void run() {
    long began = System.nanoTime();
    told.put("request_id", requestId);
    told.put("path", path);
    try {
      outcome = serve(began) < 400 ? "ok" : "refused";
    } catch (ProxyFailure e) {
      told.put("status", e.status());
      outcome = String.valueOf(e.getMessage());
      if (e.status() == CLIENT_GONE) {
        client.cut();
      } else {
        client.fail(e, requestId);
      }
    } catch (IOException e) {
      ProxyFailure why = stopped.get();
      outcome = "broken off: " + (why != null ? why.getMessage() : e.getMessage());
      client.cut();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      outcome = "interrupted";
      client.cut();
    } catch (RuntimeException e) {
      LOG.error("request_id={} failed here", requestId, e);
      outcome = "failed here: " + e;
      client.fail(new ProxyFailure(500, "the proxy failed on this request: " + e), requestId);
    }
    if (prefillMillis >= 0) {
      told.put("prefill_ms", prefillMillis);
    }
    told.put("total_ms", millisSince(began));
    StringBuilder line = new StringBuilder();
    told.forEach((key, value) -> line.append(key).append('=').append(value).append(' '));
    LOG.info("{}outcome={}", line, outcome.replaceAll("\\p{Cntrl}", " "));
  }

  /** Serves it; returns the status of the decoder's answer, which is the client's. */
  private int serve(long began) throws ProxyFailure, IOException, InterruptedException {
    ObjectNode request = LegBodies.parse(body);
    PrefillTarget target = services.rotation().nextPrefill();
    URI decoder = services.rotation().nextDecode();
    told.put("prefill", target);
    told.put("decode", decoder);
    String transferId = "xfer-" + requestId;
    String traceparent = passedOn.get(TRACEPARENT);
    TraceContext trace = TraceContext.parse(traceparent);
    if (trace != null) {
      told.put("trace_id", trace.traceId());
    }
    CompletableFuture<HttpResponse<InputStream>> prefill =
        post(
            target.prefiller().url(),
            LegBodies.forPrefiller(request, transferId, traceparent),
            Map.of("X-data-parallel-rank", Integer.toString(target.dpRank())));
    CompletableFuture<HttpResponse<InputStream>> decode =
        post(decoder, LegBodies.forDecoder(request, transferId, target, traceparent), Map.of());
    try {
      CompletableFuture<Void> prefilled =
          prefill.handle((response, e) -> checkPrefill(target, response, e, began));
      decide(decoder, decode, prefilled);
      HttpResponse<InputStream> response = await();
      relay(response, decoder, began);
      return response.statusCode();
    } finally {
      cancel(prefill);
      cancel(decode);
    }
  }

  private CompletableFuture<HttpResponse<InputStream>> post(
      URI server, byte[] json, Map<String, String> more) {
    Map<String, String> headers = new HashMap<>(more);
    headers.put("X-Request-Id", requestId);
    headers.putAll(passedOn);
    return services.backends().post(server, path, json, headers);
  }

  /** Completes {@link #answer} when it is known which it is: the decoder's, or a failure. */
  private void decide(
      URI decoder,
      CompletableFuture<HttpResponse<InputStream>> decode,
      CompletableFuture<Void> prefilled) {
    CompletableFuture<Void> _ =
        prefilled.whenComplete(
            (ok, e) -> {
              if (e != null) {
                answer.completeExceptionally(e);
              }
            });
    CompletableFuture<HttpResponse<InputStream>> _ =
        decode.whenComplete(
            (response, e) -> {
              if (e != null) {
                answer.completeExceptionally(Backends.failure("decode=" + decoder, e));
              } else if (response.statusCode() >= 300 || !isEvents(response)) {
                // All that it has to say, whatever has become of the prefill.
                answer.complete(response);
              } else {
                CompletableFuture<Void> _ = prefilled.thenAccept(ok -> answer.complete(response));
              }
            });
  }

  private @Nullable Void checkPrefill(
      PrefillTarget target,
      @Nullable HttpResponse<InputStream> response,
      @Nullable Throwable thrown,
      long began) {
    prefillMillis = millisSince(began);
    String who = "prefill=" + target;
    if (response == null) {
      services.directory().suspect(target.prefiller());
      throw new CompletionException(
          Backends.failure(who, thrown != null ? thrown : new IOException("no response")));
    }
    try (InputStream in = response.body()) {
      byte[] text = in.readNBytes(MAX_ERROR_BYTES);
      if (response.statusCode() < 300) {
        // Read to its end, so that the connection can be used again.
        in.transferTo(OutputStream.nullOutputStream());
        return null;
      }
      services.directory().suspect(target.prefiller());
      // A request that it refuses is the client's to mend; anything else is not.
      boolean refused = response.statusCode() >= 400 && response.statusCode() < 500;
      throw new CompletionException(
          new ProxyFailure(
              refused ? response.statusCode() : 502,
              who + " answered status=" + response.statusCode() + ": " + message(text)));
    } catch (IOException e) {
      throw new CompletionException(Backends.failure(who, e));
    }
  }

  /** What an error body says, in OpenAI's form or any other. */
  private static String message(byte[] body) {
    String text = new String(body, StandardCharsets.UTF_8);
    try {
      JsonNode message = JsonMapper.shared().readTree(text).path("error").path("message");
      if (message.isString()) {
        return message.stringValue();
      }
    } catch (JacksonException e) {
      // Shown as it is.
    }
    return text.length() <= 500 ? text : text.substring(0, 500) + "…";
  }

  private HttpResponse<InputStream> await() throws ProxyFailure, InterruptedException {
    try {
      return answer.get(services.timeout().toNanos(), TimeUnit.NANOSECONDS);
    } catch (ExecutionException e) {
      Throwable cause = e.getCause();
      while (cause instanceof CompletionException && cause.getCause() != null) {
        cause = cause.getCause();
      }
      if (cause instanceof ProxyFailure failure) {
        throw failure;
      }
      throw new IllegalStateException("unexpected failure of an exchange", cause);
    } catch (TimeoutException e) {
      throw new ProxyFailure(
          504, "no answer of both servers within timeout=" + services.timeout().toSeconds() + " s");
    }
  }

  private void relay(HttpResponse<InputStream> response, URI decoder, long began)
      throws IOException, InterruptedException, ProxyFailure {
    told.put("status", response.statusCode());
    told.put("first_ms", millisSince(began));
    long length = response.headers().firstValueAsLong("content-length").orElse(-1);
    AnswerProgress progress = new AnswerProgress(length, isEvents(response));
    try (InputStream in = response.body();
        IdleWatch watch = new IdleWatch(services.timeout(), () -> stop(idle(decoder)))) {
      relayed = in;
      throwIfStopped();
      client.begin(
          response.statusCode(),
          response.headers().firstValue("content-type").orElse(null),
          length,
          requestId);
      byte[] buffer = new byte[CHUNK_BYTES];
      for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
        client.write(buffer, n);
        progress.wrote(buffer, n);
        watch.progress();
      }
      if (stopped.get() == null) {
        progress.upstreamEnded();
      }
      if (!progress.isComplete()) {
        throw new IOException("stopped");
      }
    } catch (IOException e) {
      if (!progress.isComplete()) {
        if (isEvents(response)) {
          tellInStream(decoder, e);
        }
        throw e;
      }
    } finally {
      told.put("bytes", progress.bytes());
    }
    client.end();
  }

  /** The status is out: what went wrong is told as servers tell it within a stream. */
  private void tellInStream(URI decoder, IOException cause) throws InterruptedException {
    ProxyFailure why = stopped.get();
    if (why == null) {
      why = Backends.failure("decode=" + decoder, cause);
    }
    if (why.status() == CLIENT_GONE) {
      return;
    }
    byte[] event =
        ("data: " + new String(why.json(), StandardCharsets.UTF_8) + "\n\n")
            .getBytes(StandardCharsets.UTF_8);
    try {
      client.write(event, event.length);
    } catch (IOException e) {
      cause.addSuppressed(e);
    }
  }

  private ProxyFailure idle(URI decoder) {
    return new ProxyFailure(
        504,
        "nothing moved for timeout=" + services.timeout().toSeconds() + " s, decode=" + decoder);
  }

  private void throwIfStopped() throws ProxyFailure {
    ProxyFailure why = stopped.get();
    if (why != null) {
      throw why;
    }
  }

  private static boolean isEvents(HttpResponse<?> response) {
    return response.headers().firstValue("content-type").orElse("").startsWith(EVENTS);
  }

  /** Gives a request of ours up, in whatever state it is. */
  static void cancel(CompletableFuture<HttpResponse<InputStream>> leg) {
    if (!leg.cancel(true) && !leg.isCompletedExceptionally()) {
      close(leg.join().body());
    }
  }

  /** Closes an answer's body: where it is not read to its end, its connection goes with it. */
  static void close(@Nullable InputStream in) {
    if (in != null) {
      try {
        in.close();
      } catch (IOException e) {
        LOG.debug("closing an answer", e);
      }
    }
  }

  private static long millisSince(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
  }
}
