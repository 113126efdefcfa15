package dev.mooncake4j.examples.proxy;

import java.net.URI;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Whose turn it is: the ranks of all prefillers one after another, and the decoders. The two turn
 * independently, so that no prefiller is tied to one decoder.
 */
final class Rotation {
  private final EngineDirectory directory;
  private final List<URI> decoders;
  private final AtomicLong prefills = new AtomicLong();
  private final AtomicLong decodes = new AtomicLong();

  Rotation(EngineDirectory directory, List<URI> decoders) {
    this.directory = directory;
    this.decoders = List.copyOf(decoders);
  }

  /** The next rank that prefills. */
  PrefillTarget nextPrefill() throws ProxyFailure {
    List<PrefillTarget> targets = directory.targets();
    if (targets.isEmpty()) {
      throw new ProxyFailure(
          503, "no prefiller can be used: " + String.join("; ", directory.problems()));
    }
    return targets.get((int) (prefills.getAndIncrement() % targets.size()));
  }

  /** The next decoder. */
  URI nextDecode() {
    return decoders.get((int) (decodes.getAndIncrement() % decoders.size()));
  }
}
