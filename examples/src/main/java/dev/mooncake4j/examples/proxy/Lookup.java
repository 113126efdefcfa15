package dev.mooncake4j.examples.proxy;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpResponse;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A question without a body that any decoder can answer, as which models there are. */
final class Lookup implements UnderWay {
  private static final Logger LOG = LoggerFactory.getLogger(Lookup.class);

  private static final int MAX_BYTES = 1 << 20;

  private final String path;
  private final Map<String, String> passedOn;
  private final Exchange.Services services;
  private final ClientAnswer client;
  private final String requestId = UUID.randomUUID().toString();
  private final CompletableFuture<HttpResponse<InputStream>> answer = new CompletableFuture<>();
  private volatile @Nullable InputStream relayed;

  /**
   * A question that is not asked yet.
   *
   * @param passedOn headers of the client's that the decoder gets
   */
  Lookup(
      String path, Map<String, String> passedOn, Exchange.Services services, ClientAnswer client) {
    this.path = path;
    this.passedOn = passedOn;
    this.services = services;
    this.client = client;
  }

  @Override
  public String requestId() {
    return requestId;
  }

  @Override
  public void stop(ProxyFailure why) {
    answer.completeExceptionally(why);
    Exchange.close(relayed);
  }

  @Override
  public void run() {
    URI decoder = services.rotation().nextDecode();
    String who = "decode=" + decoder;
    Map<String, String> headers = new HashMap<>(passedOn);
    headers.put("X-Request-Id", requestId);
    CompletableFuture<HttpResponse<InputStream>> asked =
        services.backends().get(decoder, path, headers);
    CompletableFuture<HttpResponse<InputStream>> _ =
        asked.whenComplete(
            (response, e) -> {
              if (e != null) {
                answer.completeExceptionally(Backends.failure(who, e));
              } else {
                answer.complete(response);
              }
            });
    int status;
    String outcome;
    try {
      status = relay(answer.get(services.timeout().toNanos(), TimeUnit.NANOSECONDS));
      outcome = status < 400 ? "ok" : "refused";
    } catch (ExecutionException e) {
      ProxyFailure why =
          e.getCause() instanceof ProxyFailure failure
              ? failure
              : new ProxyFailure(500, "the proxy failed on this request: " + e.getCause());
      status = why.status();
      outcome = fail(why);
    } catch (TimeoutException e) {
      status = 504;
      outcome = fail(new ProxyFailure(status, who + " did not answer in time"));
    } catch (IOException e) {
      status = 502;
      outcome = fail(Backends.failure(who, e));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      status = 503;
      outcome = fail(ProxyServer.stopping());
    } finally {
      Exchange.cancel(asked);
    }
    LOG.info(
        "request_id={} path={} {} status={} outcome={}",
        requestId,
        path,
        who,
        status,
        outcome.replaceAll("\\p{Cntrl}", " "));
  }

  private int relay(HttpResponse<InputStream> response) throws IOException, InterruptedException {
    try (InputStream in = response.body();
        IdleWatch _ = new IdleWatch(services.timeout(), () -> Exchange.close(in))) {
      relayed = in;
      byte[] body = in.readNBytes(MAX_BYTES + 1);
      if (body.length > MAX_BYTES) {
        throw new IOException("its answer has more than bytes=" + MAX_BYTES);
      }
      client.begin(
          response.statusCode(),
          response.headers().firstValue("content-type").orElse(null),
          body.length,
          requestId);
      client.write(body, body.length);
      client.end();
      return response.statusCode();
    }
  }

  private String fail(ProxyFailure why) {
    if (why.status() == CLIENT_GONE) {
      client.cut();
    } else {
      client.fail(why, requestId);
    }
    return String.valueOf(why.getMessage());
  }
}
