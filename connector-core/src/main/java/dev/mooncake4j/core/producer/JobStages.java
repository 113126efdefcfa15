package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.trace.RequestStage;
import dev.mooncake4j.core.trace.Stage;
import org.jspecify.annotations.Nullable;

/** The events of one stage of a job, one for each of its requests. */
final class JobStages {
  private final @Nullable RequestStage[] events;

  private JobStages(@Nullable RequestStage[] events) {
    this.events = events;
  }

  /** A stage of all requests that begins now, or {@code null} where nobody records. */
  static @Nullable JobStages start(Stage stage, TransferJob job) {
    if (!RequestStage.isOn()) {
      return null;
    }
    @Nullable RequestStage[] events = new @Nullable RequestStage[job.parts().size()];
    for (int i = 0; i < events.length; i++) {
      TransferJob.Part part = job.parts().get(i);
      events[i] = RequestStage.start(stage, part.names(), job.session(), part.remote().totalSize());
    }
    return new JobStages(events);
  }

  /**
   * What of a request is written, and with how many copies: all of the job's if they are shared.
   */
  void planned(int index, long bytes, int descriptors) {
    RequestStage event = events[index];
    if (event != null) {
      event.written(bytes, descriptors);
    }
  }

  /** All are over, in the same way. */
  static void finish(@Nullable JobStages stages, String outcome, @Nullable String reason) {
    if (stages != null) {
      for (RequestStage event : stages.events) {
        RequestStage.finish(event, outcome, null, reason);
      }
    }
  }

  /** All are over; those that have a failure with it. */
  static void finish(@Nullable JobStages stages, @Nullable String[] failures) {
    if (stages != null) {
      for (int i = 0; i < failures.length; i++) {
        String failure = failures[i];
        RequestStage.finish(
            stages.events[i], failure == null ? "written" : "failed", null, failure);
      }
    }
  }
}
