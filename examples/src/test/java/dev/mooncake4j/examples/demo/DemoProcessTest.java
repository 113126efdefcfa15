package dev.mooncake4j.examples.demo;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A server that dies ends the demo at once, whichever of the two it waits for. */
class DemoProcessTest {
  private static final String SERVES =
      "echo 'a line of its log' >&2; echo '{\"event\":\"ready\"}'; read line; exit 0";

  @TempDir private Path folder;

  private DemoProcess start(String name, String script) throws Exception {
    return DemoProcess.start(name, List.of("/bin/sh", "-c", script), folder);
  }

  private static void kill(DemoProcess process) {
    assertThat(ProcessHandle.of(process.pid()).orElseThrow().destroyForcibly()).isTrue();
  }

  @Test
  void theEndOfOneIsToldToWhoeverWaitsForTheOther() throws Exception {
    try (DemoProcess prefiller = start("prefiller", SERVES);
        DemoProcess decoder = start("decoder", SERVES)) {
      prefiller.watch(decoder);
      decoder.watch(prefiller);
      assertThat(prefiller.next(60).get("event").asString()).isEqualTo("ready");
      assertThat(decoder.next(60).get("event").asString()).isEqualTo("ready");
      long killed = System.nanoTime();
      kill(decoder);
      assertThatThrownBy(() -> prefiller.next(300))
          .isInstanceOf(DemoProcess.DemoFailure.class)
          .hasMessageContaining("decoder (pid " + decoder.pid() + ") ended with exit code 137")
          .hasMessageContaining("by signal 9")
          .hasMessageContaining("a line of its log");
      assertThat(Duration.ofNanos(System.nanoTime() - killed)).isLessThan(Duration.ofMinutes(2));
      decoder.send(Map.of("cmd", "begin"));
      assertThatThrownBy(() -> decoder.next(60)).hasMessageContaining("exit code 137");
    }
  }

  @Test
  void whatItSaidLastComesBeforeItsEnd() throws Exception {
    try (DemoProcess process =
        start("decoder", "echo '{\"event\":\"fatal\",\"reason\":\"no engine\"}'; exit 1")) {
      assertThatThrownBy(() -> process.next(60)).hasMessageContaining("decoder failed: no engine");
      assertThatThrownBy(() -> process.next(60)).hasMessageContaining("exit code 1");
    }
  }
}
