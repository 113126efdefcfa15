package dev.mooncake4j.core.trace;

import dev.mooncake4j.connector.FailureStage;
import java.util.Locale;
import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.EventType;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.jspecify.annotations.Nullable;

/**
 * One stage of one request, with its time: an event for the JDK's Flight Recorder.
 *
 * <p>Where nobody records, {@link #start} is one look at a flag and gives {@code null}, which
 * {@link #finish} takes. An event belongs to one thread at a time; it may be finished on another
 * one than it was started on.
 */
@Name("dev.mooncake4j.RequestStage")
@Label("Request Stage")
@Category("Mooncake4j")
@Description("What a request whose KV is transferred goes through, stage by stage")
@StackTrace(false)
public final class RequestStage extends Event {
  private static final int MAX_REASON_CHARS = 512;

  /** Loaded with the first event of a recording: without one it would cost a start its time. */
  private static final class Recorded {
    static final EventType TYPE = EventType.getEventType(RequestStage.class);
  }

  @Label("Side")
  @Description("decoder or prefiller")
  final String side;

  @Label("Stage")
  final String stage;

  @Label("Request Id")
  @Description("The id at the server of this side")
  @Nullable String requestId;

  @Label("Transfer Id")
  @Description("The same on both sides")
  final String transferId;

  @Label("Trace Id")
  @Description("Of the request's W3C trace context")
  @Nullable String traceId;

  @Label("Peer")
  @Description("The other side's address")
  @Nullable String peer;

  @Label("Outcome")
  @Nullable String outcome;

  @Label("Failed At")
  @Description("The failure's stage, as the meters have it")
  @Nullable String failedAt;

  @Label("Reason")
  @Nullable String reason;

  @Label("Blocks")
  int blocks;

  @Label("Bytes")
  @DataAmount
  long bytes;

  @Label("Descriptors")
  int descriptors;

  private RequestStage(Stage stage, RequestNames names) {
    this.side = stage.side().text();
    this.stage = stage.text();
    this.requestId = names.requestId();
    this.transferId = names.transferId();
    this.traceId = names.traceId();
  }

  /** Whether somebody records these events. */
  public static boolean isOn() {
    return FlightRecorder.isInitialized() && Recorded.TYPE.isEnabled();
  }

  /** A stage that begins now, or {@code null} where nobody records. */
  public static @Nullable RequestStage start(Stage stage, RequestNames names) {
    if (!isOn()) {
      return null;
    }
    RequestStage event = new RequestStage(stage, names);
    event.begin();
    return event;
  }

  /** The same, where the other side or the number of blocks is known. */
  public static @Nullable RequestStage start(
      Stage stage, RequestNames names, @Nullable String peer, int blocks) {
    RequestStage event = start(stage, names);
    if (event != null) {
      event.peer = peer;
      event.blocks = blocks;
    }
    return event;
  }

  /** A stage is over; does nothing where none was started. */
  public static void finish(@Nullable RequestStage event, String outcome) {
    finish(event, outcome, null, null);
  }

  /** The same, with what went wrong. */
  public static void finish(
      @Nullable RequestStage event,
      String outcome,
      @Nullable FailureStage failedAt,
      @Nullable String reason) {
    if (event == null) {
      return;
    }
    event.end();
    event.outcome = outcome;
    event.failedAt = failedAt == null ? null : failedAt.name().toLowerCase(Locale.ROOT);
    event.reason =
        reason == null || reason.length() <= MAX_REASON_CHARS
            ? reason
            : reason.substring(0, MAX_REASON_CHARS) + "…";
    event.commit();
  }

  /** The other side's address. */
  public void peer(@Nullable String address) {
    peer = address;
  }

  /** Whose stage it is, where that was not known at its start. */
  public void names(RequestNames names) {
    requestId = names.requestId();
    traceId = names.traceId();
  }

  /** What was written. */
  public void written(long writtenBytes, int writtenDescriptors) {
    bytes = writtenBytes;
    descriptors = writtenDescriptors;
  }
}
