package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.producer.TransferJob.Outcome;
import java.util.function.Consumer;

/** Where the producer's jobs go: engine threads in production, a test's own hands in a test. */
interface TransferRunner {
  /** Hands a job over; the outcome is told once, on any thread, when the write is quiet. */
  void submit(TransferJob job, Consumer<Outcome> done);

  /** Jobs handed over whose outcome was not told yet. */
  int pending();

  /** Those of the pending ones that an engine thread has taken. */
  int writing();

  /** Refuses new jobs and waits for those under way; returns whether all have ended. */
  boolean close(long waitNanos);
}
