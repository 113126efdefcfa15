package dev.mooncake4j.examples.pictures;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.jspecify.annotations.Nullable;

/** The stages that Flight Recorder has of the requests of several servers, by transfer. */
final class Recordings {
  private static final String EVENT = "dev.mooncake4j.RequestStage";

  private final Map<String, List<Bar>> byTransfer = new HashMap<>();
  private final Map<String, String> transferOfTrace = new HashMap<>();

  /** Reads recordings; events that are not the connector's are passed over. */
  static Recordings read(List<Path> files) throws IOException {
    Recordings recordings = new Recordings();
    for (Path file : files) {
      try (RecordingFile recording = new RecordingFile(file)) {
        while (recording.hasMoreEvents()) {
          RecordedEvent event = recording.readEvent();
          if (event.getEventType().getName().equals(EVENT)) {
            recordings.add(event);
          }
        }
      }
    }
    return recordings;
  }

  private void add(RecordedEvent event) {
    String transfer = event.getString("transferId");
    String outcome = event.getString("outcome");
    byTransfer
        .computeIfAbsent(transfer, t -> new ArrayList<>())
        .add(
            new Bar(
                event.getString("side"),
                event.getString("stage"),
                event.getStartTime(),
                event.getEndTime(),
                outcome == null ? "" : outcome));
    String trace = event.getString("traceId");
    if (trace != null) {
      transferOfTrace.put(trace, transfer);
    }
  }

  /** The transfer of a trace's request, or {@code null}. */
  @Nullable String transferOf(String traceId) {
    return transferOfTrace.get(traceId);
  }

  /** All stages of a transfer, in no order. */
  List<Bar> stages(String transferId) {
    return byTransfer.getOrDefault(transferId, List.of());
  }

  /** Which sides tell of a transfer. */
  Set<String> sides(String transferId) {
    Set<String> sides = new LinkedHashSet<>();
    stages(transferId).forEach(bar -> sides.add(bar.side()));
    return sides;
  }
}
