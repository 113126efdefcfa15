package dev.mooncake4j.examples.proxy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.examples.proxy.FakeServer.Call;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How an exchange ends by its own account, with a client that leaves at a moment of the test's. */
class ExchangeTest {
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  /** A client that closes its connection as soon as it has read this. */
  private static final class LeavingClient implements ClientAnswer {
    private final String last;
    private final StringBuilder read = new StringBuilder();
    private String end = "";
    private @Nullable Exchange exchange;

    LeavingClient(String last) {
      this.last = last;
    }

    @Override
    public void begin(int status, @Nullable String contentType, long length, String requestId) {}

    @Override
    public void write(byte[] bytes, int length) {
      read.append(new String(bytes, 0, length, StandardCharsets.UTF_8));
      Exchange own = exchange;
      if (own != null && !last.isEmpty() && read.indexOf(last) >= 0) {
        own.clientGone();
      }
    }

    @Override
    public void end() {
      end = "ended";
    }

    @Override
    public void cut() {
      end = "cut";
    }

    @Override
    public void fail(ProxyFailure failure, String requestId) {
      end = "failed";
    }
  }

  private static String outcome(Consumer<Call> decoding, LeavingClient client) throws Exception {
    try (FakeServer bootstrap = FakeServer.bootstrap("engine-0");
        FakeServer prefiller = FakeServer.answering(call -> call.respond(200, "{}"));
        FakeServer decoder = FakeServer.answering(decoding);
        Backends backends = new Backends(PATIENCE);
        EngineDirectory directory =
            new EngineDirectory(
                List.of(new Prefiller(URI.create(prefiller.url()), URI.create(bootstrap.url()))),
                PATIENCE,
                null)) {
      directory.awaitFirst(PATIENCE);
      Exchange exchange =
          new Exchange(
              ProxyRig.COMPLETIONS,
              "{}".getBytes(StandardCharsets.UTF_8),
              Map.of(),
              new Exchange.Services(
                  new Rotation(directory, List.of(URI.create(decoder.url()))),
                  directory,
                  backends,
                  PATIENCE),
              client);
      client.exchange = exchange;
      exchange.run();
      return exchange.outcome();
    }
  }

  @Test
  void aClientThatLeavesWithTheLastByteHasAWholeAnswer() throws Exception {
    LeavingClient client = new LeavingClient("{\"all\":1}");
    assertThat(outcome(call -> call.respond(200, "{\"all\":1}"), client)).isEqualTo("ok");
    assertThat(client.end).isEqualTo("ended");
  }

  @Test
  void aClientThatLeavesWithTheLastEventHasAWholeAnswer() throws Exception {
    LeavingClient client = new LeavingClient("data: [DONE]\n\n");
    String outcome =
        outcome(
            call -> {
              call.begin();
              call.chunk("data: 1\n\ndata: [DO");
              call.chunk("NE]\n\n");
            },
            client);
    assertThat(outcome).isEqualTo("ok");
    assertThat(client.end).isEqualTo("ended");
  }

  @Test
  void aClientThatLeavesBeforeTheLastEventHasBrokenOff() throws Exception {
    LeavingClient client = new LeavingClient("data: 1\n\n");
    String outcome =
        outcome(
            call -> {
              call.begin();
              call.chunk("data: 1\n\n");
            },
            client);
    assertThat(outcome).isEqualTo("broken off: the client is gone");
    assertThat(client.end).isEqualTo("cut");
  }

  @ParameterizedTest
  @ValueSource(ints = {400, 429, 500, 503})
  void aDecodersRefusalThatIsPassedOnIsNoSuccess(int status) throws Exception {
    LeavingClient client = new LeavingClient("");
    assertThat(outcome(call -> call.respond(status, "{}"), client)).isEqualTo("refused");
    assertThat(client.end).isEqualTo("ended");
  }
}
