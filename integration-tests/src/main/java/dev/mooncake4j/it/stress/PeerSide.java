package dev.mooncake4j.it.stress;

import dev.mooncake4j.connector.StepResult;

/** What a peer does with its jobs; one thread. */
interface PeerSide {
  /** Takes the jobs of a message. */
  void take(Messages.ToPeer message);

  /** The worker has reported. */
  void onResult(StepResult result);

  /** Requests that are not over. */
  int outstanding();

  /** Results that named no live request. */
  long strays();
}
