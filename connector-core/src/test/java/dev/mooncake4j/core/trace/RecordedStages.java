package dev.mooncake4j.core.trace;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** A recording of the stages of requests. */
public final class RecordedStages implements AutoCloseable {
  private final Recording recording = new Recording();

  /** Begins to record. */
  public RecordedStages() {
    recording.enable("dev.mooncake4j.RequestStage");
    recording.start();
  }

  /** Ends the recording; the events, in the order of their ends. */
  public List<RecordedEvent> events() {
    try {
      Path file = Files.createTempFile("stages", ".jfr");
      try {
        recording.stop();
        recording.dump(file);
        return RecordingFile.readAllEvents(file).stream()
            .filter(event -> event.getEventType().getName().equals("dev.mooncake4j.RequestStage"))
            .sorted(java.util.Comparator.comparing(RecordedEvent::getEndTime))
            .toList();
      } finally {
        Files.delete(file);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** An event as {@code side stage request_id transfer_id outcome}. */
  public static String text(RecordedEvent event) {
    return String.join(
        " ",
        event.getString("side"),
        event.getString("stage"),
        event.getString("requestId"),
        event.getString("transferId"),
        event.getString("outcome"));
  }

  /** The event of a stage; fails if there is another number. */
  public static RecordedEvent only(List<RecordedEvent> events, String stage) {
    List<RecordedEvent> found =
        events.stream().filter(event -> event.getString("stage").equals(stage)).toList();
    if (found.size() != 1) {
      throw new AssertionError("events of stage=" + stage + ": " + found);
    }
    return found.getFirst();
  }

  @Override
  public void close() {
    recording.close();
  }
}
