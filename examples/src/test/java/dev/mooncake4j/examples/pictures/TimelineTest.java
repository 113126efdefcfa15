package dev.mooncake4j.examples.pictures;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.groups.Tuple.tuple;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import jdk.jfr.Event;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** From recordings and the proxy's log to a picture. */
class TimelineTest {
  private static final Instant START = Instant.parse("2026-01-02T03:04:05.000Z");

  /** With the names and fields of the connector's event that are read here. */
  @Name("dev.mooncake4j.RequestStage")
  static final class StageEvent extends Event {
    String side = "";
    String stage = "";
    String transferId = "";
    @Nullable String traceId;
    @Nullable String outcome;
  }

  @Test
  void stagesOfBothSidesAreFoundByTheTrace(@TempDir Path folder) throws IOException {
    Path prefiller = folder.resolve("p.jfr");
    Path decoder = folder.resolve("d.jfr");
    record(prefiller, "prefiller", "write", "x-1");
    record(decoder, "decoder", "fetch", "x-1");
    Recordings recordings = Recordings.read(List.of(prefiller, decoder));
    assertThat(recordings.transferOf("trace-x-1")).isEqualTo("x-1");
    assertThat(recordings.transferOf("another")).isNull();
    assertThat(recordings.sides("x-1")).containsExactly("prefiller", "decoder");
    assertThat(recordings.stages("x-1"))
        .extracting(Bar::stage, Bar::outcome)
        .containsExactly(tuple("write", ""), tuple("fetch", ""));
    assertThat(recordings.stages("x-2")).isEmpty();
  }

  @Test
  void theProxysTimesEndWithItsLine() {
    List<String> log =
        List.of(
            "2026-01-02T03:04:06.000Z INFO Exchange - request_id=1 trace_id=aa prefill_ms=9"
                + " total_ms=9 outcome=ok",
            "2026-01-02T03:04:06.000Z INFO Exchange - request_id=2 trace_id=bb status=200"
                + " first_ms=700 bytes=3 prefill_ms=600 total_ms=1000 outcome=ok");
    assertThat(ProxyLog.bars(log, "bb"))
        .containsExactly(
            new Bar("proxy", "prefill request", START, START.plusMillis(600), ""),
            new Bar("proxy", "decode: to headers", START, START.plusMillis(700), ""),
            new Bar("proxy", "decode: stream", START.plusMillis(700), START.plusMillis(1000), ""));
    assertThat(ProxyLog.bars(log, "cc")).isEmpty();
  }

  @Test
  void eachStageIsABarWithItsTime() {
    String svg =
        TimelinePicture.draw(
            "title",
            "subtitle",
            List.of(
                new Bar(
                    "prefiller", "write", START.plusMillis(42), START.plusMillis(49), "written"),
                new Bar("client", "to the first token", START, START.plusMillis(60), ""),
                new Bar("client", "rest", START.plusMillis(60), START.plusSeconds(2), "")),
            START.plusMillis(60));
    assertThat(svg.indexOf(">client<")).isPositive().isLessThan(svg.indexOf(">prefiller<"));
    assertThat(svg).contains(">60.0 ms<").contains(">7.0 ms, written<").contains(">1940 ms →<");
    // 730 pixels of width, from 230 on, are 70 ms, and then the 7 ms of the transfer alone.
    assertThat(svg)
        .contains("x=\"668.0\"")
        .contains("width=\"73.0\"")
        .contains("x=\"230.0\"")
        .contains("width=\"730.0\"");
  }

  @Test
  void theTimesOfARequestGoThroughAFile() {
    RequestTimes times = new RequestTimes("aa", START, START.plusNanos(1500), START.plusMillis(2));
    assertThat(RequestTimes.parse(times.line())).isEqualTo(times);
  }

  private static void record(Path file, String side, String stage, String transfer)
      throws IOException {
    try (Recording recording = new Recording()) {
      recording.enable(StageEvent.class);
      recording.start();
      StageEvent event = new StageEvent();
      event.begin();
      event.side = side;
      event.stage = stage;
      event.transferId = transfer;
      event.traceId = "trace-" + transfer;
      event.commit();
      recording.dump(file);
    }
  }
}
