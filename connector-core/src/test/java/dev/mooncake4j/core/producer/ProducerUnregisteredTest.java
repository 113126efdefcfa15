package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.results.ResultQueue;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RecordingListener;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.PullResponse.Status;
import dev.mooncake4j.core.wire.WireCodec;
import dev.mooncake4j.core.wire.WireLayout;
import dev.mooncake4j.testkit.ManualClock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A prefiller whose server has forgotten to register its caches. */
class ProducerUnregisteredTest {
  private final EventLoop loop = new EventLoop(new ManualClock());
  private final ResultQueue results = new ResultQueue(() -> {});
  private final List<byte[]> answers = new ArrayList<>();
  private final Producer producer =
      new Producer(
          loop,
          new RankLayout(0, 1, 0, 1, 0),
          new Producer.Settings(Duration.ofMinutes(8), null),
          (to, answer) -> answers.add(answer),
          results,
          new RecordingListener());

  @Test
  void aSendIsRefusedAndItsBlocksAreFreeAtOnce() throws Exception {
    producer.step(
        new StepPlan(
            List.of(),
            List.of(),
            List.of(),
            List.of(new StepPlan.Announcement("p", "t"), new StepPlan.Announcement("p2", "t2")),
            List.of(new StepPlan.Ready("p", "t", BlockIds.of(1))),
            List.of()));

    assertThat(results.take().sent())
        .singleElement()
        .isEqualTo(new StepResult.Sent("p", "t", StepResult.SendEnd.RELEASED));
    assertThat(producer.leases()).isZero();
    assertThat(producer.sends()).as("the other goes on").isEqualTo(1);
    PullResponse answer = ask("t");
    assertThat(answer.status()).isEqualTo(Status.ERROR);
    assertThat(answer.message()).contains("no kv caches registered");
  }

  private PullResponse ask(String transferId) throws Exception {
    PullRequest pull =
        new PullRequest(
            "127.0.0.1",
            1,
            1,
            0,
            List.of(RawDecoder.entry("d", transferId, 1)),
            WireLayout.empty(),
            1,
            0);
    producer.onRequest(new PeerIdentity(1, "10.0.0.9"), WireCodec.encode(pull));
    assertThat(answers).hasSize(1);
    return WireCodec.decodeResponse(answers.getFirst());
  }
}
