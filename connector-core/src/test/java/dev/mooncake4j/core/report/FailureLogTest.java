package dev.mooncake4j.core.report;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.TraceContext;
import dev.mooncake4j.core.config.CapturedLog;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.trace.RequestNames;
import dev.mooncake4j.core.trace.Stage;
import dev.mooncake4j.testkit.ManualClock;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class FailureLogTest {
  private static final TraceContext TRACE =
      new TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1);

  private final ManualClock clock = new ManualClock();
  private final FailureLog failures = new FailureLog(clock);

  private static FailureLog.Told told(String reason) {
    return new FailureLog.Told(FailureStage.SIDE_CHANNEL, null, 3, null, null, reason);
  }

  private static List<String> lines(CapturedLog log) {
    return log.lines("WARN").stream()
        .filter(line -> line.contains("request failed "))
        .map(line -> line.substring(line.indexOf("request failed ")))
        .toList();
  }

  @Test
  void aLineIsNamesAndValues() {
    try (CapturedLog log = new CapturedLog()) {
      failures.failed(
          Stage.Side.DECODER,
          new RequestNames("r-1", "xfer-1", TRACE),
          new FailureLog.Told(
              FailureStage.TRANSFER, "tcp://10.0.0.1:7", 3, false, "p-1", "no \"link\" a=b"));
      failures.failed(Stage.Side.PREFILLER, new RequestNames("", "t", null), told("why"));

      assertThat(lines(log))
          .containsExactly(
              "request failed side=decoder request_id=r-1 transfer_id=xfer-1 stage=transfer"
                  + " peer=tcp://10.0.0.1:7 peer_request_id=p-1 blocks=3 quiet=false"
                  + " trace_id=4bf92f3577b34da6a3ce929d0e0e4736 reason=\"no \\\"link\\\" a=b\"",
              "request failed side=prefiller transfer_id=t stage=side_channel blocks=3 reason=why");
    }
  }

  @Test
  void whatComesFromOutsideNeitherBreaksALineNorMakesItLong() {
    try (CapturedLog log = new CapturedLog()) {
      failures.failed(
          Stage.Side.DECODER,
          new RequestNames("a\nstage=x", "\u001b[31m" + "t".repeat(10_000), null),
          told("r".repeat(10_000)));

      assertThat(lines(log))
          .singleElement()
          .asString()
          .startsWith("request failed side=decoder request_id=\"a?stage=x\" transfer_id=\"?[31mttt")
          .hasSizeLessThan(1400);
    }
  }

  @Test
  void aFloodIsAFewLinesASecondAndTheOthersAreCounted() {
    try (CapturedLog log = new CapturedLog()) {
      for (int second = 0; second < 3; second++) {
        for (int i = 0; i < 1000; i++) {
          failures.failed(Stage.Side.DECODER, new RequestNames("r" + i, "t", null), told("why"));
        }
        clock.advance(Duration.ofSeconds(1));
      }

      List<String> lines = lines(log);
      assertThat(lines).hasSize(3 * FailureLog.LINES);
      assertThat(lines.get(10)).contains(" suppressed=990 ");
      assertThat(lines.get(20)).contains(" suppressed=990 ");
      assertThat(lines).filteredOn(line -> line.contains("suppressed")).hasSize(2);
    }
  }

  @Test
  void bothSidesOfARequestThatFailsHaveOneLineWithTheTrace() {
    try (CapturedLog log = new CapturedLog();
        CoreRig rig = CoreRig.single()) {
      rig.prefiller()
          .step(
              new StepPlan(
                  List.of(),
                  List.of(),
                  List.of(),
                  List.of(new StepPlan.Announcement("p", "t", TRACE)),
                  List.of(new StepPlan.Ready("p", "t", BlockIds.of(1))),
                  List.of()));
      rig.decoder()
          .pull(
              new StepPlan.Pull(
                  "d", "t", CoreRig.ENGINE_ID, CoreRig.BOOTSTRAP, BlockIds.of(5), TRACE));
      rig.settle();
      rig.prefiller().transfers().only().fail("link down");
      rig.settle();

      String trace = " trace_id=" + TRACE.traceId();
      assertThat(lines(log))
          .satisfiesExactlyInAnyOrder(
              line ->
                  assertThat(line)
                      .contains("side=prefiller request_id=p transfer_id=t stage=transfer peer=")
                      .contains(" peer_request_id=d blocks=1" + trace)
                      .contains("link down"),
              line ->
                  assertThat(line)
                      .contains("side=decoder request_id=d transfer_id=t stage=transfer peer=")
                      .contains(" blocks=1 quiet=true" + trace)
                      .contains("link down"));
    }
  }

  @Test
  void aPullThatTimesOutHasALineOnThePrefiller() {
    try (CapturedLog log = new CapturedLog();
        CoreRig rig = CoreRig.single()) {
      rig.decoder().pull("d", "t", 5);
      rig.advanceSeconds(100);

      assertThat(lines(log))
          .anySatisfy(
              line ->
                  assertThat(line)
                      .startsWith("request failed side=prefiller transfer_id=t stage=prefill peer=")
                      .contains(" peer_request_id=d ")
                      .contains("timed out"));
    }
  }
}
