package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** How long a prefiller keeps blocks that nobody fetches. */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class LeaseTest {
  private static final Object[] SHAPE = {"--layers", 2, "--num-blocks", 64, "--block-len", 4096};

  private @Nullable PeerPair pair;

  @AfterEach
  void stop() {
    if (pair != null) {
      pair.close();
    }
  }

  private PeerPair start(List<Object> prefillerOptions, List<Object> decoderOptions) {
    PeerPair started =
        PeerPair.start(
            PeerProcess.prefiller("prefiller").options(SHAPE).options(prefillerOptions.toArray()),
            PeerProcess.decoder("decoder").options(SHAPE).options(decoderOptions.toArray()),
            SHAPE);
    pair = started;
    return started;
  }

  @Test
  void theAbortTimeoutFreesBlocksAndTellsALateDecoder() {
    PeerPair p = start(List.of("--abort-timeout", 2), List.of());
    String id = PeerPair.fresh("expired");
    p.prefill(id, 1, 2);
    JsonNode freed = p.prefiller.await("finished_sending", "req_id", "p-" + id);
    assertThat(freed.path("end").asString()).isEqualTo("EXPIRED");
    assertThat(freed.path("seconds").asDouble()).isGreaterThanOrEqualTo(1.9);
    p.pull(id, 1, 2);
    assertThat(p.awaitFailed(id).path("reason").asString()).contains("expired");
    assertThat(
            p.prefiller
                .ask("stats", "cmd", "stats")
                .path("data")
                .path("num_kv_expired_reqs")
                .asInt())
        .isEqualTo(1);
    p.verifyIdle();
  }

  @Test
  void aPullOfAnUnknownTransferWaitsAsLongAsTheAbortTimeout() {
    PeerPair p = start(List.of("--abort-timeout", 2), List.of());
    String id = PeerPair.fresh("never");
    p.pull(id, 1, 2);
    JsonNode failed = p.awaitFailed(id);
    assertThat(failed.path("stage").asString()).isEqualTo("PREFILL");
    assertThat(failed.path("reason").asString()).contains("timed out");
    assertThat(failed.path("seconds").asDouble()).isGreaterThanOrEqualTo(1.9);
    p.verifyIdle();
  }

  @Test
  void renewalsKeepBlocksForAQueuedRequestAndADeadDecoderFreesThem() {
    List<Object> lease = List.of("--kv-lease-duration", 2);
    PeerPair p = start(lease, lease);
    String kept = PeerPair.fresh("kept");
    String lost = PeerPair.fresh("lost");
    for (String id : new String[] {kept, lost}) {
      Map<String, Object> arrival = p.pullCommand(id, 1, 2);
      arrival.put("cmd", "arrive");
      p.decoder.send(arrival);
      p.decoder.await("arrived", "req_id", "d-" + id);
      p.prefill(id, 5, 6);
    }
    // Three times the lease: without renewals both would have expired.
    Awaitility.await()
        .during(Duration.ofSeconds(6))
        .atMost(Duration.ofSeconds(10))
        .pollInterval(Duration.ofMillis(200))
        .until(() -> p.prefiller.state().path("leases").asInt() == 2);
    p.pull(kept, 1, 2);
    p.awaitReceived(kept);
    assertThat(p.awaitSent(kept)).isEqualTo("SERVED");
    p.verify(new int[] {5, 6}, new int[] {1, 2});
    long killedAt = System.nanoTime();
    p.decoder.kill();
    assertThat(p.awaitSent(lost)).isEqualTo("EXPIRED");
    System.out.printf(
        "decoder killed: its lease of 2 s ended after %.2f s%n",
        (System.nanoTime() - killedAt) / 1e9);
    PeerPair.verifyIdle(p.prefiller);
  }

  @Test
  void withoutRenewalsALeaseEnds() {
    PeerPair p = start(List.of("--kv-lease-duration", 1), List.of());
    String id = PeerPair.fresh("unrenewed");
    p.prefill(id, 1, 2);
    assertThat(p.awaitSent(id)).isEqualTo("EXPIRED");
  }

  @Test
  void aPrefillerWithoutLeasesRefusesRenewalsAndServesAllTheSame() {
    PeerPair p = start(List.of(), List.of("--kv-lease-duration", 1));
    String id = PeerPair.fresh("onesided");
    Map<String, Object> arrival = p.pullCommand(id, 1, 2);
    arrival.put("cmd", "arrive");
    p.decoder.send(arrival);
    p.decoder.await("arrived", "req_id", "d-" + id);
    p.prefill(id, 5, 6);
    Awaitility.await()
        .atMost(PeerProcess.SOON)
        .until(
            () -> p.decoder.errorText().contains("kv_lease_duration is not set on this prefiller"));
    p.pull(id, 1, 2);
    p.awaitReceived(id);
    p.awaitSent(id);
    p.verify(new int[] {5, 6}, new int[] {1, 2});
    p.verifyIdle();
  }
}
