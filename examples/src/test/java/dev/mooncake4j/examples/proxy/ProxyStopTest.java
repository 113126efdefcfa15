package dev.mooncake4j.examples.proxy;

import static dev.mooncake4j.examples.proxy.ProxyRig.COMPLETIONS;
import static dev.mooncake4j.examples.proxy.ProxyRig.get;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mooncake4j.examples.proxy.FakeServer.Call;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** How the proxy stops, and how it is called. */
class ProxyStopTest {

  @Test
  void whatIsUnderWayEndsAndNothingNewIsTaken() throws Exception {
    try (ProxyRig rig = new ProxyRig();
        Socket idle = rig.connect()) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      Call prefill = rig.prefiller().take();
      Call decode = rig.decoder().take();
      int port = rig.proxy.port();
      Thread stop = Thread.ofVirtual().start(rig.proxy::close);
      assertThat(idle.getInputStream().read()).as("idle connections are closed").isEqualTo(-1);
      await()
          .untilAsserted(
              () ->
                  assertThatThrownBy(
                          () -> new Socket(InetAddress.getLoopbackAddress(), port).close())
                      .isInstanceOf(IOException.class));
      assertThat(stop.isAlive()).isTrue();
      prefill.respond(200, "{}");
      decode.respond(200, "{\"done\":1}");
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(200);
      assertThat(got.body()).isEqualTo("{\"done\":1}");
      assertThat(stop.join(Duration.ofSeconds(20))).isTrue();
    }
  }

  @Test
  void whatDoesNotEndInTimeIsToldAndGivenUp() throws Exception {
    ProxyRig.Shape shape =
        new ProxyRig.Shape(
            1, 1, Duration.ofSeconds(30), Duration.ofMillis(100), List.of("engine-0"));
    try (ProxyRig rig = new ProxyRig(shape)) {
      CompletableFuture<HttpResponse<String>> answer = rig.post(COMPLETIONS, "{}");
      Call prefill = rig.prefiller().take();
      Call decode = rig.decoder().take();
      rig.proxy.close();
      HttpResponse<String> got = get(answer);
      assertThat(got.statusCode()).isEqualTo(503);
      assertThat(got.body()).contains("the proxy is stopping");
      prefill.awaitGone();
      decode.awaitGone();
    }
  }

  @Test
  void asAProgramItServesAndEndsOnSigterm() throws Exception {
    try (FakeServer bootstrap = FakeServer.bootstrap("engine-7");
        FakeServer prefiller = new FakeServer();
        FakeServer decoder = new FakeServer()) {
      Process process =
          new ProcessBuilder(
                  List.of(
                      Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                      "-cp",
                      System.getProperty("java.class.path"),
                      Proxy.class.getName(),
                      "--prefill",
                      prefiller.url(),
                      Integer.toString(bootstrap.port()),
                      "--decode",
                      decoder.url() + "/",
                      "--port",
                      "0"))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
        String line = out.readLine();
        assertThat(line).startsWith("proxy: listening on http://127.0.0.1:");
        int port = Integer.parseInt(line.substring(line.lastIndexOf(':') + 1));
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
          socket.getOutputStream().write(ProxyRig.rawPost(COMPLETIONS, "{}"));
          prefiller.take().respond(200, "{}");
          Call decode = decoder.take();
          assertThat(decode.params().get("remote_engine_id").asString()).isEqualTo("engine-7");
          process.destroy();
          decode.respond(200, "{\"late\":1}");
          ProxyTest.readUntil(socket.getInputStream(), "{\"late\":1}");
        }
        assertThat(process.waitFor(20, TimeUnit.SECONDS)).isTrue();
        assertThat(process.exitValue()).isEqualTo(143);
      } finally {
        process.destroyForcibly();
      }
    }
  }

  private record Ended(int code, String err) {}

  private static Ended run(String... args) {
    StringWriter err = new StringWriter();
    CommandLine command = Proxy.commandLine().setErr(new PrintWriter(err));
    return new Ended(command.execute(args), err.toString());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "--decode http://d:1|--prefill",
        "--prefill http://p:1|--decode",
        "--prefill p:1 --decode http://d:1|--prefill p:1 is not a server's URL",
        "--prefill 8998 --decode http://d:1|--prefill 8998 has no URL before it",
        "--prefill http://p:1 99999 --decode http://d:1|99999 is not a bootstrap port",
        "--prefill http://p:1 --decode ftp://d|--decode ftp://d is not a server's URL",
        "--prefill http://p:1 --decode http://d:1 --port 70000|--port 70000 is not within",
        "--prefill http://p:1 --decode http://d:1 --port x|--port",
        "--prefill http://p:1 --decode http://d:1 --timeout 0|--timeout 0 is not within",
        "--prefill http://p:1 --decode http://d:1 --bootstrap nowhere|nowhere",
        "--prefill http://p:1 --decode http://d:1 --colour blue|--colour",
      })
  void wrongArgumentsAreNamed(String given) {
    String[] parts = given.split("\\|", -1);
    Ended ended = run(parts[0].split(" ", -1));
    assertThat(ended.code()).isEqualTo(2);
    assertThat(ended.err()).contains(parts[1]);
  }

  @Test
  void severalProblemsAreToldTogether() {
    Ended ended = run("--prefill", "x", "--decode", "y", "--port", "-1");
    assertThat(ended.err()).contains("--prefill x").contains("--decode y").contains("--port -1");
  }

  @Test
  void aBusyPortIsNamed() throws Exception {
    try (ServerSocket busy = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      Ended ended =
          run(
              "--prefill",
              "http://127.0.0.1:1",
              "1",
              "--decode",
              "http://127.0.0.1:1",
              "--port",
              Integer.toString(busy.getLocalPort()));
      assertThat(ended.code()).isEqualTo(1);
      assertThat(ended.err())
          .contains("cannot listen on host=127.0.0.1 port=" + busy.getLocalPort())
          .contains("--port");
    }
  }

  @Test
  void prefillersFindTheirBootstrapServers() {
    assertThat(bootstraps(List.of("http://a:1", "http://b:2/", "7", "http://[::1]:3", "none")))
        .containsExactly("http://a:8998", "http://b:7", "http://[::1]:8998");
    assertThat(bootstraps(List.of("http://a:1", "http://b:2"), "http://c:9"))
        .containsExactly("http://c:9", "http://c:9");
    assertThat(bootstraps(List.of("http://a:1", "http://b:2"), "http://c:9", "https://d"))
        .containsExactly("http://c:9", "https://d");
  }

  private static List<String> bootstraps(List<String> words, String... bootstraps) {
    List<String> problems = new ArrayList<>();
    List<Prefiller> prefillers = ProxyOptions.prefillers(words, List.of(bootstraps), problems);
    assertThat(problems).isEmpty();
    return prefillers.stream().map(p -> p.bootstrap().toString()).toList();
  }
}
