package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** Far more descriptors than the engine takes at a time. */
@Tag("two-jvms")
class ManyDescriptorsTest {
  private static final int LAYERS = 25;
  private static final int BLOCKS = 8192;
  private static final Random RANDOM = new Random(7);

  private static PeerPair pair;

  @BeforeAll
  static void start() {
    Object[] shape = {"--layers", LAYERS, "--num-blocks", BLOCKS, "--block-len", 2048};
    pair =
        PeerPair.start(
            PeerProcess.prefiller("prefiller").optimized().options(shape),
            PeerProcess.decoder("decoder").optimized().options(shape),
            shape);
  }

  @AfterAll
  static void stop() {
    pair.close();
  }

  @BeforeEach
  void clean() {
    pair.decoder.zero();
    pair.prefiller.forgetEvents();
    pair.decoder.forgetEvents();
  }

  @AfterEach
  void nothingIsLeft() {
    pair.verifyIdle();
  }

  @Test
  void oneRequestOfAHundredThousand() {
    int[] sent = Blocks.scattered(4000, BLOCKS, RANDOM);
    int[] received = Blocks.scattered(4000, BLOCKS, RANDOM);
    String id = PeerPair.fresh("large");
    pair.prefill(id, sent);
    pair.pull(id, received);
    JsonNode event = pair.awaitReceived(id);
    JsonNode write = pair.prefiller.await("send_blocks");
    System.out.printf(
        "100,000 descriptors of 2 KiB: request %.2f s, copy %.2f s%n",
        event.path("seconds").asDouble(), write.path("seconds").asDouble());
    assertThat(write.path("num_descs").asInt()).isEqualTo(100_000);
    pair.awaitSent(id);
    pair.verify(sent, received);
  }

  @Test
  void tenRequestsOfFiveThousandAtOnce() {
    int each = 200;
    int[] sent = Blocks.scattered(10 * each, BLOCKS, RANDOM);
    int[] received = Blocks.scattered(10 * each, BLOCKS, RANDOM);
    List<String> ids = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      String id = PeerPair.fresh("ten");
      ids.add(id);
      pair.prefill(id, Blocks.part(i * each, each, sent));
    }
    for (int i = 0; i < 10; i++) {
      pair.decoder.send(pair.pullCommand(ids.get(i), Blocks.part(i * each, each, received)));
    }
    for (String id : ids) {
      pair.awaitReceived(id);
      pair.awaitSent(id);
    }
    int descriptors = 0;
    for (int i = 0; i < 10; i++) {
      descriptors += pair.prefiller.await("send_blocks").path("num_descs").asInt();
      pair.decoder.await("pulling");
    }
    assertThat(descriptors).isEqualTo(50_000);
    pair.verify(sent, received);
  }
}
