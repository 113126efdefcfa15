package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** A process that cannot start says why, and ends. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class StartFaultTest {
  private static final Object[] SHAPE = {"--layers", 1, "--num-blocks", 8, "--block-len", 4096};

  private static JsonNode failure(PeerProcess peer) {
    JsonNode failed = peer.await(PeerProcess.START, "start_failed");
    assertThat(failed.path("error").asString()).isEqualTo("EngineUnavailableException");
    assertThat(peer.awaitExit()).isEqualTo(1);
    assertThat(peer.leftFiles()).isEmpty();
    return failed;
  }

  @Test
  void engineLibraryThatIsNotThere() {
    try (PeerProcess peer =
        PeerProcess.decoder("decoder")
            .options(SHAPE)
            .environment("MOONCAKE4J_ENGINE_LIBRARY", "/nowhere/engine.so")
            .start()) {
      assertThat(failure(peer).path("message").asString())
          .contains("/nowhere/engine.so")
          .contains("MOONCAKE4J_ENGINE_LIBRARY");
    }
  }

  @Test
  void engineLibraryThatIsNone(@TempDir Path folder) throws IOException {
    Path text = Files.writeString(folder.resolve("engine.so"), "not a library");
    try (PeerProcess peer =
        PeerProcess.prefiller("prefiller")
            .options(SHAPE)
            .environment("MOONCAKE4J_ENGINE_LIBRARY", text.toString())
            .start()) {
      assertThat(failure(peer).path("message").asString()).contains(text.toString());
    }
  }

  @Test
  void optionsThatAreWrongAreAllTold() {
    try (PeerProcess peer =
        PeerProcess.decoder("decoder").options("--layers", 0, "--wrong", 1).start()) {
      JsonNode failed = peer.await(PeerProcess.START, "start_failed");
      assertThat(failed.path("message").asString()).contains("--layers 0").contains("--wrong");
      assertThat(peer.awaitExit()).isEqualTo(2);
    }
  }
}
